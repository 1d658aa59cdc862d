package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/image/keyring"
	"github.com/gangline/gangline/agent/image/tool"
)

// authfile is where a tool finds its credentials: its first descriptor beyond the standard
// ones is a file in memory, which has no name and ends with those who have it open, however
// they end.
const authfile = "/proc/self/fd/3"

// runTool has the site's command make the layout. Words of it in braces are replaced:
// {image}, {layout} and {authfile}, which is a .dockerconfigjson with what fits the image.
func (j Job) runTool(ctx context.Context) error {
	credentials, err := j.credentials()
	if err != nil {
		return err
	}
	defer credentials.Close() //nolint:errcheck // written and in memory
	words := strings.NewReplacer("{image}", j.Reference, "{layout}", j.Layout, "{authfile}", authfile)
	command := make([]string, len(j.Tool))
	for i, word := range j.Tool {
		command[i] = words.Replace(word)
	}
	said := &tool.LastWords{}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = said, said, []*os.File{credentials}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with a job that is killed
	cmd.WaitDelay = tool.Patience
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the site's tool for pulling, %s: %w: %s", command[0], err, said)
	}
	return nil
}

// credentials is a file in memory with what fits the image.
func (j Job) credentials() (*os.File, error) {
	ref, err := name.ParseReference(j.Reference)
	if err != nil {
		return nil, err
	}
	auths := map[string]authn.AuthConfig{}
	for _, config := range [][]byte{j.Registry.SiteCredentials, j.Registry.Credentials} {
		keys, err := keyring.Parse(config)
		if err != nil {
			return nil, err
		}
		if fitting := keys.Lookup(ref.Context().Name()); len(fitting) > 0 {
			auths[ref.Context().RegistryStr()] = fitting[0]
		}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("gangline-auth", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("writing the credentials for the site's tool: %w", err)
	}
	f := os.NewFile(uintptr(fd), authfile)
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o600)); err != nil {
		return nil, fmt.Errorf("writing the credentials for the site's tool: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}
