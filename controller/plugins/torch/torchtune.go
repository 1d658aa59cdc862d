package torch

import (
	"slices"
	"strings"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/distributed"
)

func isTorchtune(command []string) bool {
	return slices.Equal(command, []string{"tune", "run"})
}

// tuneWords are what follows "tune run": the rendezvous if there is one, the
// recipe, the configuration, and the paths that the runtime has set.
func tuneWords(info *framework.Info, trainJob *v1alpha1.TrainJob, s scale) []string {
	var words []string
	if s.meets() {
		words = append(words, "--rdzv_endpoint="+distributed.Address(info, trainJob))
	}
	r := s.recipe(methodOf(info.Trainer.Args))
	words = append(words, r.name, "--config", modelOf(trainJob.Spec.RuntimeRef)+r.configSuffix)
	return append(words, managedWords(info)...)
}

// managedWords are the words of the runtime's command that set what TrainJobs
// must not, as they stand there.
func managedWords(info *framework.Info) []string {
	var words []string
	for i := range info.PodSets {
		p := &info.PodSets[i]
		if p.Ancestor != v1alpha1.AncestorTrainer {
			continue
		}
		if c := p.TrainingContainer(); c != nil {
			for _, word := range c.Command {
				if isManaged(configKey(word)) {
					words = append(words, word)
				}
			}
		}
	}
	return words
}

// configKey is what a word of the form key=value sets.
func configKey(word string) string {
	key, _, _ := strings.Cut(word, "=")
	return key
}

// isManaged tells whether the runtime has to set the key: its volumes decide the
// paths.
func isManaged(key string) bool {
	return slices.Contains([]string{
		"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir",
	}, key)
}

// method is what of the model is trained.
type method int

const (
	full  method = iota // all its weights
	lora                // low-rank adapters
	qlora               // low-rank adapters on a quantized model
)

// methodOf reads the method off the configuration in the arguments. DoRA has no
// quantized form.
func methodOf(args []string) method {
	switch {
	case enabled(args, "model.quantize_base") && !enabled(args, "model.use_dora"):
		return qlora
	case slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "model.lora_attn_modules") }):
		return lora
	default:
		return full
	}
}

// enabled tells whether an argument sets the key to true, in whatever case
// Python's and YAML's users write it.
func enabled(args []string, key string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return strings.Contains(name, key) && strings.EqualFold(strings.TrimSpace(value), "true")
	})
}

// recipe is one of torchtune's, with the end of its configuration's name.
type recipe struct{ name, configSuffix string }

// recipes are those for one device, for several of one node, and for several
// nodes. On several nodes torchtune has no adapters; admission refuses them.
var recipes = map[method]struct{ device, node, nodes recipe }{
	full: {
		device: recipe{"full_finetune_single_device", "_full_single_device"},
		node:   recipe{"full_finetune_distributed", "_full"},
		nodes:  recipe{"full_finetune_distributed", "_full_multinode"},
	},
	lora: {
		device: recipe{"lora_finetune_single_device", "_lora_single_device"},
		node:   recipe{"lora_finetune_distributed", "_lora"},
		nodes:  recipe{"full_finetune_distributed", "_full_multinode"},
	},
	qlora: {
		device: recipe{"lora_finetune_single_device", "_qlora_single_device"},
		node:   recipe{"lora_finetune_distributed", "_qlora"},
		nodes:  recipe{"full_finetune_distributed", "_full_multinode"},
	},
}

func (s scale) recipe(m method) recipe {
	switch r := recipes[m]; {
	case s.nodes > 1:
		return r.nodes
	case s.oneDevice():
		return r.device
	default:
		return r.node
	}
}

// modelOf is torchtune's name of the model that a runtime is for, from the
// runtime's: torchtune-llama3.2-1b is for llama3_2/1B, and so is its variant for
// the HPC side, which has -hpc behind that. It is "" for names of another form.
func modelOf(runtime v1alpha1.RuntimeRef) string {
	parts := strings.Split(strings.TrimSuffix(runtime.Name, "-hpc"), "-")
	if len(parts) != 3 {
		return ""
	}
	return strings.ReplaceAll(parts[1], ".", "_") + "/" + strings.ToUpper(parts[2])
}

// support is what torchtune has configurations for, of one model.
type support struct {
	// multiNode: for several nodes.
	multiNode bool
	// noQLoRA: none for QLoRA, or, with qloraOneDevice, one for a single device.
	noQLoRA        bool
	qloraOneDevice bool
}

// models are those that can be trained.
var models = map[string]support{
	"llama3_2/1B":  {qloraOneDevice: true},
	"llama3_2/3B":  {qloraOneDevice: true},
	"llama3_3/70B": {multiNode: true},
	"qwen2_5/1.5B": {noQLoRA: true},
}
