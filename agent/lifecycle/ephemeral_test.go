package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func (w *world) debug(name string) { w.pod.AddEphemeral(spool.ContainerOrders{Name: name}) }

func TestAnEphemeralContainerRunsOnce(t *testing.T) {
	w := newWorld(t, corev1.RestartPolicyAlways, nil, containers("main"))
	w.expect("start main 0")
	w.debug("debugger")
	w.expect("start debugger 0")
	w.debug("debugger")
	w.exit("debugger", 3)
	assert.Empty(t, w.do(), "it is not started again, nor is the pod ended")
	status := w.pod.Status().EphemeralContainers
	require.Len(t, status, 1)
	require.NotNil(t, status[0].State.Terminated)
	assert.EqualValues(t, 3, status[0].State.Terminated.ExitCode)
	assert.Len(t, w.pod.Status().Containers, 1)
}

func TestAnEphemeralContainerDoesNotWaitForInitContainers(t *testing.T) {
	w := newWorld(t, corev1.RestartPolicyAlways, containers("init"), containers("main"))
	w.expect("start init 0")
	w.debug("debugger")
	w.expect("start debugger 0")
}

func TestAPodDoesNotWaitForItsEphemeralContainers(t *testing.T) {
	w := newWorld(t, corev1.RestartPolicyNever, nil, containers("main"))
	w.do()
	w.debug("debugger")
	w.do()
	w.exit("main", 0)
	w.expect("terminate debugger 0")
	assert.False(t, w.pod.Finished())
	w.after(2 * time.Second)
	w.expect("kill debugger 0")
	w.exit("debugger", 137)
	assert.True(t, w.pod.Finished())
}

func TestAnEphemeralContainerHasThePodsGrace(t *testing.T) {
	w := newWorld(t, corev1.RestartPolicyNever, nil, containers("main"))
	w.do()
	w.debug("debugger")
	w.do()
	w.stop(30 * time.Second)
	w.expect("terminate main 0", "terminate debugger 0")
	w.after(29 * time.Second)
	assert.Empty(t, w.do())
	w.debug("late")
	assert.Empty(t, w.do(), "nothing starts in a pod that ends")
}

func TestSidecarsDoNotWaitForEphemeralContainers(t *testing.T) {
	w := newWorld(t, corev1.RestartPolicyNever, []spool.ContainerOrders{sidecar("side")}, containers("main"))
	w.do()
	w.do()
	w.debug("debugger")
	w.do()
	w.exit("main", 0)
	w.expect("terminate side 0", "terminate debugger 0")
}
