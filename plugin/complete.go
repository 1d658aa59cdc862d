package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/gangline/gangline/plugin/gangs"
)

// completeFor is how long a shell waits for completions.
const completeFor = 3 * time.Second

// completion is cobra's function for arguments. What cannot be read is not completed.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// reading makes a completion of what can be read: the words that begin as the one that is
// being written.
func (e *env) reading(read func(ctx context.Context, c *clients) []string) completion {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := e.connect(&e.connection)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeFor)
		defer cancel()
		words := slices.DeleteFunc(read(ctx, c), func(word string) bool { return !strings.HasPrefix(word, begun) })
		slices.Sort(words)
		return slices.Compact(words), cobra.ShellCompDirectiveNoFileComp
	}
}

// first completes one argument only: those after it are not completed.
func first(c completion) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, begun)
	}
}

// completeGangs completes gangs, for commands that take so many; 0 is any number.
func (e *env) completeGangs(most int) completion {
	c := e.reading(gangWords)
	if most == 1 {
		return first(c)
	}
	return c
}

// gangWords are the ways to name the gangs: with the kind, and without where that is clear.
func gangWords(ctx context.Context, c *clients) []string {
	found, err := c.gangs(ctx, c.namespace, "")
	if err != nil {
		return nil
	}
	var words []string
	for _, g := range found {
		words = append(words, g.Ref(), g.Name)
	}
	return words
}

// podWords are the names of the gangs' pods.
func podWords(ctx context.Context, c *clients) []string {
	found, err := c.gangs(ctx, c.namespace, "")
	if err != nil {
		return nil
	}
	var words []string
	for _, p := range podsOf(found) {
		words = append(words, p.Name)
	}
	return words
}

// completePods completes the pod of ssh, which may be a gang too.
func (e *env) completePods(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // the command's own
	}
	return e.reading(func(ctx context.Context, c *clients) []string {
		return append(podWords(ctx, c), gangWords(ctx, c)...)
	})(cmd, args, begun)
}

// completeObjects completes what can be explained: in one word (trainjob/pi), or in two.
func (e *env) completeObjects(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return e.reading(func(ctx context.Context, c *clients) []string {
			words := append(gangWords(ctx, c), podWords(ctx, c)...)
			for _, name := range c.names(ctx, trainJobs, c.namespace) {
				words = append(words, name, "trainjob/"+name)
			}
			for _, name := range c.names(ctx, jobSets, c.namespace) {
				words = append(words, name, "jobset/"+name)
			}
			return words
		})(cmd, args, begun)
	case 1:
		return e.reading(func(ctx context.Context, c *clients) []string { return namesOf(ctx, c, args[0]) })(cmd, args, begun)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// namesOf are the names of a kind's objects.
func namesOf(ctx context.Context, c *clients, kind string) []string {
	ref, err := gangs.ParseRef(kind, "any")
	if err != nil {
		return nil
	}
	switch ref.Kind {
	case "Pod":
		return podWords(ctx, c)
	case "TrainJob":
		return c.names(ctx, trainJobs, c.namespace)
	case "JobSet":
		return c.names(ctx, jobSets, c.namespace)
	}
	found, err := c.gangs(ctx, c.namespace, "")
	if err != nil {
		return nil
	}
	var names []string
	for _, g := range found {
		if g.Kind == ref.Kind || ref.Kind == "Gang" {
			names = append(names, g.Name)
		}
	}
	return names
}

// connectionCompletions complete the flags that say whom to speak to.
func (e *env) connectionCompletions() map[string]completion {
	fromConfig := func(names func(*api.Config) []string) completion {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			config, err := e.config().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			words := names(&config)
			slices.Sort(words)
			return slices.Compact(words), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return map[string]completion{
		"namespace": e.reading(e.namespaces),
		"context":   fromConfig(func(c *api.Config) []string { return keys(c.Contexts) }),
		"cluster":   fromConfig(func(c *api.Config) []string { return keys(c.Clusters) }),
		"user":      fromConfig(func(c *api.Config) []string { return keys(c.AuthInfos) }),
	}
}

// namespaces are all, or, for those who may not list them, those of their contexts.
func (e *env) namespaces(ctx context.Context, c *clients) []string {
	var names []string
	list, err := c.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err == nil {
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return names
	}
	config, err := e.config().RawConfig()
	if err != nil {
		return nil
	}
	for _, of := range config.Contexts {
		if of.Namespace != "" {
			names = append(names, of.Namespace)
		}
	}
	return names
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}
