package statusserver

import "github.com/gangline/gangline/controller/api/v1alpha1"

// Path is the URL path that a TrainJob's reports go to.
func Path(namespace, name string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/trainjobs/" + name + "/status"
}

// Audience is that of the tokens that reports for a TrainJob must bear.
func Audience(namespace, name string) string {
	return v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/trainjobs/" + name + "/status"
}
