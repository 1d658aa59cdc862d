// Package sshdtest runs SSH services in tests, with commands run on this machine.
package sshdtest
