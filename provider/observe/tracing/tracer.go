package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation's name.
const scope = "github.com/gangline/gangline/provider"

// Tracer sends traces of starts. A nil one sends none.
type Tracer struct {
	// providers are by service; a span's service is its provider's.
	providers [services]*sdktrace.TracerProvider
	// starts are sent one after the other: a large gang's has more spans than the SDK
	// would keep.
	starts chan Start
	stop   chan struct{} // closed to end
	sent   chan struct{} // closed when the last has been handed over
}

// waiting is how many starts are kept while the collector is slow.
const waiting = 256

// New makes the Tracer that the environment asks for by OpenTelemetry's own variables, nil
// where it asks for none:
//
//   - OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: the collector; or
//     OTEL_TRACES_EXPORTER=otlp for one at its default place.
//   - OTEL_EXPORTER_OTLP_PROTOCOL (or …_TRACES_…): http/protobuf, the default, or grpc.
//   - OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS and their
//     like as OpenTelemetry's SDK for Go has them.
//   - OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true: no traces.
//
// A collector that does not answer holds nobody up: starts beyond a number are dropped.
func New(ctx context.Context, version string, env func(string) string) (*Tracer, error) {
	protocol, wanted, err := wanted(env)
	if err != nil || !wanted {
		return nil, err
	}
	exporter, err := protocols()[protocol](ctx)
	if err != nil {
		return nil, fmt.Errorf("preparing traces for the collector: %w", err)
	}
	t, err := newTracer(sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithBlocking()), version)
	if err != nil {
		return nil, err
	}
	go t.run()
	return t, nil
}

func newTracer(processor sdktrace.SpanProcessor, version string) (*Tracer, error) {
	t := &Tracer{starts: make(chan Start, waiting), stop: make(chan struct{}), sent: make(chan struct{})}
	for of, name := range [services]string{"gangline-node", "gangline-agent"} {
		own := resource.NewSchemaless(attribute.String("service.name", name), attribute.String("service.version", version))
		// What else is said comes from the environment, but not whose the spans are.
		about, err := resource.Merge(resource.Environment(), own)
		if err != nil {
			return nil, fmt.Errorf("preparing traces: %w", err)
		}
		t.providers[of] = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(processor), sdktrace.WithResource(about))
	}
	return t, nil
}

// protocols are those of OTLP, by their names in the environment.
func protocols() map[string]func(context.Context) (*otlptrace.Exporter, error) {
	return map[string]func(context.Context) (*otlptrace.Exporter, error){
		"http/protobuf": func(ctx context.Context) (*otlptrace.Exporter, error) { return otlptracehttp.New(ctx) },
		"grpc":          func(ctx context.Context) (*otlptrace.Exporter, error) { return otlptracegrpc.New(ctx) },
	}
}

// wanted reads whether and how traces are to be sent.
func wanted(env func(string) string) (protocol string, wanted bool, err error) {
	exporter := env("OTEL_TRACES_EXPORTER")
	endpoint := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch {
	case strings.EqualFold(env("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && endpoint == "":
		return "", false, nil
	case exporter != "" && exporter != "otlp":
		return "", false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: gangline-node knows otlp and none", exporter)
	}
	protocol = cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if _, known := protocols()[protocol]; !known {
		return "", false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: gangline-node knows http/protobuf and grpc", protocol)
	}
	return protocol, true, nil
}

// Record has a start sent as one trace. It waits for nothing.
func (t *Tracer) Record(s Start) {
	if t == nil {
		return
	}
	select {
	case t.starts <- s:
	default:
		otel.Handle(errors.New("the collector is too slow: a trace was dropped"))
	}
}

// run sends what is recorded until Close.
func (t *Tracer) run() {
	defer close(t.sent)
	for {
		select {
		case s := <-t.starts:
			t.send(s)
			continue
		default:
		}
		select {
		case s := <-t.starts:
			t.send(s)
		case <-t.stop:
			return // nothing was waiting
		}
	}
}

func (t *Tracer) send(s Start) {
	if root, known := spans(s); known {
		t.record(context.Background(), root)
	}
}

func (t *Tracer) record(ctx context.Context, s span) {
	tracer := t.providers[s.of].Tracer(scope)
	ctx, open := tracer.Start(ctx, s.name, trace.WithTimestamp(s.from), trace.WithAttributes(attributes(s.attributes)...))
	for _, within := range s.within {
		t.record(ctx, within)
	}
	if s.failure != "" {
		open.SetStatus(codes.Error, s.failure)
	}
	open.End(trace.WithTimestamp(s.to))
}

func attributes(values map[string]any) []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, name := range ordered(values) {
		switch v := values[name].(type) {
		case string:
			if v != "" {
				all = append(all, attribute.String(name, strings.ToValidUTF8(v, "")))
			}
		case int:
			all = append(all, attribute.Int(name, v))
		}
	}
	return all
}

// closeTimeout bounds the sending of what is left.
const closeTimeout = 5 * time.Second

// Close sends what is left, within a time. What is recorded later is not sent.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	close(t.stop)
	select {
	case <-t.sent:
	case <-ctx.Done():
	}
	var errs []error
	for _, p := range t.providers {
		errs = append(errs, p.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
