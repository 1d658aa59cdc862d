package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd is reached through Unix sockets: they need no port, and only the owner of their folder can open them.
//
// Their paths are relative, because the kernel limits a socket's path to 108 bytes, and etcd cuts the path of a peer
// socket after the first slash. So etcd runs in its own folder, and the API server in the one above.
const (
	etcdServerURL = "unix://client.sock"
	etcdPeerURL   = "unix://peer.sock"
	etcdClientURL = "unix://etcd/client.sock"
)

// quota bounds etcd's file, in bytes. A hundred thousand pods that are written four times within five minutes, when what is
// old is dropped, need more than etcd's own 2 GiB.
const quota = 8 << 30

// runEtcd serves etcd until the context ends.
func runEtcd(ctx context.Context, l layout) error {
	if err := os.Chdir(l.etcdDir()); err != nil {
		return fmt.Errorf("enter etcd's folder: %w", err)
	}
	client, err := url.Parse(etcdServerURL)
	if err != nil {
		return fmt.Errorf("parse etcd's client URL: %w", err)
	}
	peer, err := url.Parse(etcdPeerURL)
	if err != nil {
		return fmt.Errorf("parse etcd's peer URL: %w", err)
	}
	config := embed.NewConfig()
	config.Name = "devcluster"
	config.Dir = filepath.Join(l.etcdDir(), "data")
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.EnableGRPCGateway = false
	// A dev cluster may lose its data when the machine crashes; waiting for the disk is what makes etcd slow.
	config.UnsafeNoFsync = true
	config.QuotaBackendBytes = quota
	config.LogLevel = "warn"
	config.LogOutputs = []string{embed.StdErrLogOutput}

	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return fmt.Errorf("make etcd's data folder: %w", err)
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("serve etcd: %w", err)
	case <-server.Server.StopNotify():
		return fmt.Errorf("etcd stopped by itself")
	}
}
