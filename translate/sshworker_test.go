package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func TestSSHDIsRecognised(t *testing.T) {
	tests := map[string]struct {
		argv []string
		want string
	}{
		"Kubeflow's runtimes":                         {[]string{"/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"}, "/usr/sbin/sshd"},
		"an MPIJob's worker":                          {[]string{"/usr/sbin/sshd", "-De"}, "/usr/sbin/sshd"},
		"by name":                                     {[]string{"sshd", "-D", "-p", "2222"}, "sshd"},
		"in a shell's line":                           {[]string{"sh", "-c", "/usr/sbin/sshd -De"}, "/usr/sbin/sshd"},
		"behind other commands":                       {[]string{"/bin/bash", "-ec", "mkdir -p /run/sshd && exec /usr/sbin/sshd -De"}, "/usr/sbin/sshd"},
		"in the background":                           {[]string{"bash", "-e", "-c", "(/usr/sbin/sshd);sleep infinity"}, "/usr/sbin/sshd"},
		"by name in a line":                           {[]string{"sh", "-c", "sshd -p 2222; sleep infinity"}, "sshd"},
		"quoted":                                      {[]string{"sh", "-c", `"/usr/sbin/sshd" -D`}, "/usr/sbin/sshd"},
		"a directory of that name is no program":      {[]string{"sh", "-c", "mkdir -p /var/run/sshd; sleep 1"}, ""},
		"nor is a relative path":                      {[]string{"sh", "-c", "./bin/sshd"}, ""},
		"nor another program":                         {[]string{"/usr/sbin/sshd_wrapper"}, ""},
		"an argument of another program is no sshd":   {[]string{"pgrep", "sshd"}, ""},
		"a script file is not looked into":            {[]string{"sh", "/start.sh", "-c", "/usr/sbin/sshd"}, ""},
		"a shell without a line":                      {[]string{"sh", "-c"}, ""},
		"a shell alone":                               {[]string{"sh"}, ""},
		"no command":                                  {nil, ""},
		"an ordinary command that only waits for mpi": {[]string{"sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"}, ""},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, test.want, sshdIn(test.argv))
		})
	}
}

func TestSSHDHasTheKeysThatAreMounted(t *testing.T) {
	r := &resolver{volumes: []spool.Volume{
		{Name: "keys", Files: []spool.File{{Path: "id_rsa"}, {Path: "authorized_keys"}}},
		{Name: "deep", Files: []spool.File{{Path: "ssh/authorized_keys"}}},
		{Name: "host", HostPath: "/home/someone/.ssh"},
	}}
	tests := map[string]struct {
		mounts []spool.Mount
		want   []string
	}{
		"Kubeflow's Secret":                      {[]spool.Mount{{Volume: "keys", Path: "/home/mpiuser/.ssh"}}, []string{"/home/mpiuser/.ssh/authorized_keys"}},
		"the file alone":                         {[]spool.Mount{{Volume: "keys", Path: "/keys/authorized_keys", SubPath: "authorized_keys"}}, []string{"/keys/authorized_keys"}},
		"a directory of the volume":              {[]spool.Mount{{Volume: "deep", Path: "/keys", SubPath: "ssh"}}, []string{"/keys/authorized_keys"}},
		"a file below is not looked for":         {[]spool.Mount{{Volume: "deep", Path: "/keys"}}, nil},
		"a file that is mounted under that name": {[]spool.Mount{{Volume: "keys", Path: "/keys/authorized_keys", SubPath: "id_rsa"}}, []string{"/keys/authorized_keys"}},
		"the node's files are not ours to offer": {[]spool.Mount{{Volume: "host", Path: "/keys"}}, nil},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			got := r.sshd([]string{"/usr/sbin/sshd"}, test.mounts)
			assert.Equal(t, &spool.SSHD{Program: "/usr/sbin/sshd", AuthorizedKeys: test.want}, got)
		})
	}
	assert.Nil(t, r.sshd([]string{"sleep", "1"}, nil))
}

func TestArgumentsThatAreSSHDNeedNoCommand(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "mpi-worker", Image: "mpioperator/mpi-pi:intel", Args: []string{"/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"},
	}}}}
	assert.Nil(t, Admit(pod, Site{}))
}
