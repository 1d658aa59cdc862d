package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/gangline/gangline/agent/image/keyring"
)

// memory is where a tool's credentials are written: a filesystem in memory.
const memory = "/dev/shm"

// runTool has the site's command make the layout. Words of it in braces are replaced:
// {image}, {layout} and {authfile}, which is a .dockerconfigjson with what fits the image.
func (j Job) runTool(ctx context.Context) error {
	authfile, err := j.writeCredentials()
	if err != nil {
		return err
	}
	defer os.Remove(authfile) //nolint:errcheck // at worst it goes with the job's memory
	words := strings.NewReplacer("{image}", j.Reference, "{layout}", j.Layout, "{authfile}", authfile)
	command := make([]string, len(j.Tool))
	for i, word := range j.Tool {
		command[i] = words.Replace(word)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the site's tool for pulling, %s: %w: %s", command[0], err, lastLines(said.String()))
	}
	return nil
}

func (j Job) writeCredentials() (string, error) {
	ref, err := name.ParseReference(j.Reference)
	if err != nil {
		return "", err
	}
	auths := map[string]authn.AuthConfig{}
	for _, config := range [][]byte{j.Registry.SiteCredentials, j.Registry.Credentials} {
		keys, err := keyring.Parse(config)
		if err != nil {
			return "", err
		}
		if fitting := keys.Lookup(ref.Context().Name()); len(fitting) > 0 {
			auths[ref.Context().RegistryStr()] = fitting[0]
		}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(memory, "gangline-auth-*") // 0600
	if err != nil {
		return "", fmt.Errorf("writing the credentials for the site's tool: %w", err)
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}

// lastLines is the end of what a tool has said: its complaint.
func lastLines(text string) string {
	const most = 400
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}
