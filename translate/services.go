package translate

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServerService is the Service every pod is told of (in the namespace
// default); in-cluster clients find the API server by it.
const apiServerService = "kubernetes"

// serviceVars are the variables that tell a pod of Services, as kubelet makes
// them (pkg/kubelet/envvars): for those of its namespace if it wants links, and
// always for default/kubernetes. They come in the order of the Services' names.
func (r *resolver) serviceVars() ([]corev1.EnvVar, error) {
	chosen := map[string]*corev1.Service{}
	apiServer, err := r.apiServer()
	if err != nil {
		return nil, err
	}
	if apiServer != nil {
		chosen[apiServerService] = apiServer
	}
	for _, s := range r.in.Services {
		// The Service of the API server gives way to one of the same name in
		// the pod's own namespace.
		own := s.Namespace == r.pod.Namespace && r.refs.ServiceLinks
		isAPIServer := s.Namespace == metav1.NamespaceDefault && s.Name == apiServerService
		if own && !isAPIServer && hasAddress(s) {
			chosen[s.Name] = s
		}
	}
	var vars []corev1.EnvVar
	for _, name := range sortedKeys(chosen) {
		vars = append(vars, varsOf(chosen[name])...)
	}
	return vars, nil
}

// apiServer is the Service default/kubernetes, at the address where the HPC
// nodes reach it.
func (r *resolver) apiServer() (*corev1.Service, error) {
	if r.in.APIServer != "" {
		host, port, err := net.SplitHostPort(r.in.APIServer)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's address for pods: %w", err)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's address for pods %q: the port must be a number", r.in.APIServer)
		}
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: apiServerService},
			Spec: corev1.ServiceSpec{
				ClusterIP: host,
				Ports:     []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: int32(number)}},
			},
		}, nil
	}
	i := slices.IndexFunc(r.in.Services, func(s *corev1.Service) bool {
		return s.Namespace == metav1.NamespaceDefault && s.Name == apiServerService && hasAddress(s)
	})
	if i < 0 {
		return nil, nil
	}
	return r.in.Services[i], nil
}

func hasAddress(s *corev1.Service) bool {
	return s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone && len(s.Spec.Ports) > 0
}

func varsOf(s *corev1.Service) []corev1.EnvVar {
	var vars []corev1.EnvVar
	add := func(name, value string) { vars = append(vars, corev1.EnvVar{Name: name, Value: value}) }
	prefix, ip := varName(s.Name), s.Spec.ClusterIP

	add(prefix+"_SERVICE_HOST", ip)
	add(prefix+"_SERVICE_PORT", portNumber(s.Spec.Ports[0]))
	for _, p := range s.Spec.Ports {
		if p.Name != "" {
			add(prefix+"_SERVICE_PORT_"+varName(p.Name), portNumber(p))
		}
	}
	// The form of Docker's links.
	for i, p := range s.Spec.Ports {
		protocol := strings.ToLower(string(cmp.Or(p.Protocol, corev1.ProtocolTCP)))
		url := protocol + "://" + net.JoinHostPort(ip, portNumber(p))
		if i == 0 {
			add(prefix+"_PORT", url)
		}
		link := fmt.Sprintf("%s_PORT_%d_%s", prefix, p.Port, strings.ToUpper(protocol))
		add(link, url)
		add(link+"_PROTO", protocol)
		add(link+"_PORT", portNumber(p))
		add(link+"_ADDR", ip)
	}
	return vars
}

func portNumber(p corev1.ServicePort) string { return strconv.Itoa(int(p.Port)) }

func varName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
