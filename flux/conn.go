package flux

// request is one message to a broker.
type request struct {
	topic   string
	payload string
	node    uint32
	// streaming requests are answered until an error ends the stream.
	streaming bool
	// submit makes payload a jobspec that the library signs and sends.
	submit  bool
	urgency int
	flags   int
	// cancelTopic ends a stream at the broker; empty where there is no such way.
	cancelTopic string
}

// reply is one answer. A stream's last one has an error.
type reply struct {
	payload string
	err     error
}

// conn is one connection. Its methods may be called from several goroutines.
type conn interface {
	// send starts a request. deliver is called in the order of the answers, by a
	// goroutine that it must not hold up, until one that is the last: one with an
	// error, or any if the request is not streaming. The function that is returned
	// gives the request up; deliver may be called a little longer.
	send(r request, deliver func(reply)) (giveUp func())
	// lost is closed when there is no more connection, and reason says why.
	lost() <-chan struct{}
	reason() error
	// close gives up all requests and disconnects.
	close()
	version() string
}
