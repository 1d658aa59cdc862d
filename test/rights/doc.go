// Package rights compares what roles grant with what was asked for, by the API
// server's audit log. It decides nothing about which rights are rare.
package rights
