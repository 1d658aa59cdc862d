package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
)

func TestStopSignal(t *testing.T) {
	for name, want := range map[string]unix.Signal{
		"":            unix.SIGTERM,
		"SIGTERM":     unix.SIGTERM,
		"SIGUSR1":     unix.SIGUSR1,
		"SIGQUIT":     unix.SIGQUIT,
		"SIGRTMIN":    34,
		"SIGRTMIN+3":  37,
		"SIGRTMAX":    64,
		"SIGRTMAX-14": 50,
	} {
		t.Run(name, func(t *testing.T) {
			c := spool.ContainerOrders{Lifecycle: &corev1.Lifecycle{}}
			if name != "" {
				c.Lifecycle.StopSignal = ptr.To(corev1.Signal(name))
			}
			got, err := stopSignal(c)
			assert.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	for _, name := range []string{"SIGNAL", "SIGRTMIN+31", "SIGRTMAX+1", "SIGRTMINx"} {
		got, err := stopSignal(spool.ContainerOrders{Lifecycle: &corev1.Lifecycle{StopSignal: ptr.To(corev1.Signal(name))}})
		assert.ErrorContains(t, err, name)
		assert.Equal(t, unix.SIGTERM, got, "it must end all the same")
	}
}
