package tracing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time {
	return began.Add(time.Duration(seconds * float64(time.Second)))
}

// twoPods is a gang of two that has started: the job's start is in whole seconds, as
// Slurm tells it.
func twoPods() Start {
	return Start{
		Gang: "g", Owner: "JobSet team/pi", Namespace: "team", VirtualNode: "hpc", Allocation: "a", Job: "7", Slots: 2,
		Complete: at(1), Submitted: at(1.2), Begun: at(4), Reported: at(5),
		Agents: []Agent{{Slot: 0, Node: "hpc1", Started: at(4.5)}, {Slot: 1, Node: "hpc2", Started: at(4.8)}},
		Pods: []Pod{
			{
				Name: "pi-0", UID: "u0", Slot: 0, Node: "hpc1", Seen: at(0), Ordered: at(5.1), Taken: at(5.2), Started: at(5.3), Told: at(5.4), Running: at(5.6),
				InitContainers: []Run{{Container: "fetch", From: at(5.2), To: at(5.3)}},
			},
			{Name: "pi-1", UID: "u1", Slot: 1, Node: "hpc2", Seen: at(1), Ordered: at(5.1), Taken: at(5.2), Started: at(5.3), Told: at(5.4), Running: at(5.5)},
		},
	}
}

// drawn is a tree of spans as text.
func drawn(s span, depth int) string {
	name := [services]string{"node", "agent"}[s.of] + " " + s.name
	text := fmt.Sprintf("%s%s %.1f-%.1f", strings.Repeat("  ", depth), name, s.from.Sub(began).Seconds(), s.to.Sub(began).Seconds())
	if s.failure != "" {
		text += " failed: " + s.failure
	}
	text += "\n"
	for _, within := range s.within {
		text += drawn(within, depth+1)
	}
	return text
}

func TestSpans(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*Start)
		want   string
	}{
		"a gang that has started": {func(*Start) {}, `
node start gang 0.0-5.6
  node form gang 0.0-1.0
  node submit 1.0-1.2
  node queue 1.2-4.0
  node start agents 4.0-5.0
    agent start agent 4.0-4.5
    agent start agent 4.0-4.8
  node start pod 0.0-5.6
    node write orders 5.0-5.1
    agent take orders 5.1-5.2
    agent start containers 5.2-5.3
    agent init container 5.2-5.3
    agent report 5.3-5.4
    node write status 5.4-5.6
  node start pod 1.0-5.5
    node write orders 5.0-5.1
    agent take orders 5.1-5.2
    agent start containers 5.2-5.3
    agent report 5.3-5.4
    node write status 5.4-5.5`},
		"what a node did not see that was started again in between is left out": {func(s *Start) {
			s.Complete, s.Reported, s.Pods, s.Agents = time.Time{}, time.Time{}, s.Pods[1:], s.Agents[1:]
			s.Pods[0].Ordered = time.Time{}
		}, `
node start gang 1.0-5.5
  node queue 1.2-4.0
  node start pod 1.0-5.5
    agent start containers 5.2-5.3
    agent report 5.3-5.4
    node write status 5.4-5.5`},
		"a clock that is behind makes no span negative": {func(s *Start) {
			s.Pods, s.Agents = s.Pods[1:], s.Agents[1:]
			s.Pods[0].Taken = at(3)
		}, `
node start gang 1.0-5.5
  node form gang 1.0-1.0
  node submit 1.0-1.2
  node queue 1.2-4.0
  node start agents 4.0-5.0
    agent start agent 4.0-4.8
  node start pod 1.0-5.5
    node write orders 5.0-5.1
    agent take orders 5.1-5.1
    agent start containers 3.0-5.3
    agent report 5.3-5.4
    node write status 5.4-5.5`},
		"a pod that comes late finds the allocation there": {func(s *Start) {
			s.Pods = s.Pods[1:]
			s.Pods[0].Seen, s.Pods[0].Ordered, s.Pods[0].Taken = at(7), at(7.1), at(7.2)
			s.Pods[0].Started, s.Pods[0].Told, s.Pods[0].Running = at(7.3), at(7.4), at(7.5)
		}, `
node start gang 7.0-7.5
  node start pod 7.0-7.5
    node write orders 7.0-7.1
    agent take orders 7.1-7.2
    agent start containers 7.2-7.3
    agent report 7.3-7.4
    node write status 7.4-7.5`},
		"a job that Slurm started in the second of its submission": {func(s *Start) {
			s.Pods, s.Agents, s.Begun, s.Submitted = s.Pods[1:], nil, at(1), at(1.2)
		}, `
node start gang 1.0-5.5
  node form gang 1.0-1.0
  node submit 1.0-1.2
  node queue 1.2-1.2
  node start agents 1.2-5.0
  node start pod 1.0-5.5
    node write orders 5.0-5.1
    agent take orders 5.1-5.2
    agent start containers 5.2-5.3
    agent report 5.3-5.4
    node write status 5.4-5.5`},
		"a job that ended in the queue": {func(s *Start) {
			*s = Start{Gang: "g", Submitted: at(1), Complete: at(0), Over: at(9), Failure: "it was cancelled", Pods: []Pod{{Name: "p", Seen: at(0)}}}
		}, `
node start gang 0.0-9.0 failed: it was cancelled
  node form gang 0.0-0.0
  node submit 0.0-1.0
  node start pod 0.0-9.0 failed: it was cancelled`},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := twoPods()
			tc.change(&s)
			root, known := spans(s)
			require.True(t, known)
			assert.Equal(t, strings.TrimSpace(tc.want), strings.TrimSpace(drawn(root, 0)))
		})
	}
	_, known := spans(Start{Gang: "g"})
	assert.False(t, known, "of a start without pods there is nothing to tell")
}

func TestAStartIsOneTraceOfTwoServices(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	tracer, err := newTracer(sdktrace.NewSimpleSpanProcessor(sent), "v1")
	require.NoError(t, err)
	s := twoPods()
	s.Pods[1].Running, s.Over, s.Failure = time.Time{}, at(8), "the job has ended"
	tracer.send(s)
	stubs := sent.GetSpans()
	services := map[string]int{}
	for _, stub := range stubs {
		assert.Equal(t, stubs[0].SpanContext.TraceID(), stub.SpanContext.TraceID())
		for _, a := range stub.Resource.Attributes() {
			if a.Key == "service.name" {
				services[a.Value.AsString()]++
			}
		}
		if stub.Name == "start gang" {
			assert.False(t, stub.Parent.IsValid())
			assert.Equal(t, codes.Error, stub.Status.Code)
			assert.Equal(t, at(8), stub.EndTime.UTC())
		}
	}
	assert.Equal(t, map[string]int{"gangline-node": 10, "gangline-agent": 9}, services)
}

func TestNoStartWaitsForTheCollector(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	tracer, err := newTracer(sdktrace.NewSimpleSpanProcessor(sent), "v1")
	require.NoError(t, err)
	for range waiting + 10 { // nobody sends
		tracer.Record(Start{})
	}
	assert.Len(t, tracer.starts, waiting)
	go tracer.run()
	require.NoError(t, tracer.Close())
	assert.Empty(t, tracer.starts)
}

func TestWhatTheEnvironmentAsksFor(t *testing.T) {
	for sentence, tc := range map[string]struct {
		env      map[string]string
		protocol string
		wanted   bool
		err      string
	}{
		"nothing":                  {nil, "", false, ""},
		"a collector":              {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "http/protobuf", true, ""},
		"one for traces":           {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "http/protobuf", true, ""},
		"one at its default place": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, "http/protobuf", true, ""},
		"one by gRPC":              {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc", true, ""},
		"its own protocol wins":    {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "grpc", true, ""},
		"no traces":                {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, "", false, ""},
		"nothing at all":           {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, "", false, ""},
		"another exporter":         {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "", false, "knows otlp and none"},
		"another protocol":         {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "", false, "knows http/protobuf and grpc"},
	} {
		t.Run(sentence, func(t *testing.T) {
			protocol, wanted, err := wanted(func(name string) string { return tc.env[name] })
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.protocol, protocol)
			assert.Equal(t, tc.wanted, wanted)
		})
	}
}

func TestWithoutATracerNothingIsSent(t *testing.T) {
	var none *Tracer
	none.Record(twoPods())
	require.NoError(t, none.Close())
}
