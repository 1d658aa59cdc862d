package torch_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/plugins/torch"
	"github.com/gangline/gangline/controller/trainertest"
)

// tuneRuntime is Kubeflow's runtime torchtune-llama3.2-1b, without its volumes.
const tuneRuntime = `
metadata: {name: torchtune-llama3.2-1b, labels: {trainer.kubeflow.org/framework: torchtune}}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: model-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}
          spec: {template: {spec: {containers: [{name: model-initializer, command: [output_dir=/elsewhere]}]}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - name: node
                  command:
                  - tune
                  - run
                  - --rdzv_endpoint=localhost:29500
                  - full_finetune_distributed
                  - --config
                  - llama3_2/1B_full
                  - dataset=torchtune.datasets.instruct_dataset
                  - dataset.source=parquet
                  - output_dir=/workspace/output
                  - tokenizer.path=/workspace/model/original/tokenizer.model
                  - tokenizer.merges_file=/workspace/model/merges.txt
                  - checkpointer.checkpoint_dir=/workspace/model
                  resources: {limits: {nvidia.com/gpu: 2}}`

func TestTorchtuneCommand(t *testing.T) {
	const rendezvous = "--rdzv_endpoint=tj-node-0-0.tj:29500"
	tests := map[string]struct {
		runtime, trainer string
		want             []string
	}{
		"full, one device": {
			"torchtune-llama3.2-1b", `{resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}`,
			[]string{"full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"},
		},
		"full, one process on several GPUs": {
			"torchtune-llama3.2-1b", `{numProcPerNode: 1}`,
			[]string{"full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"},
		},
		"full, one CPU": {
			"torchtune-llama3.2-1b", `{resourcesPerNode: {limits: {cpu: 1}}}`,
			[]string{"full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"},
		},
		"full, several CPUs": {
			"torchtune-llama3.2-1b", `{resourcesPerNode: {limits: {cpu: 4}}}`,
			[]string{rendezvous, "full_finetune_distributed", "--config", "llama3_2/1B_full"},
		},
		"full, the runtime's two GPUs": {
			"torchtune-llama3.2-3b", `{}`,
			[]string{rendezvous, "full_finetune_distributed", "--config", "llama3_2/3B_full"},
		},
		"full, two processes for one GPU": {
			"torchtune-qwen2.5-1.5b", `{numProcPerNode: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}`,
			[]string{rendezvous, "full_finetune_single_device", "--config", "qwen2_5/1.5B_full_single_device"},
		},
		"full, several nodes": {
			"torchtune-llama3.3-70b", `{numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}`,
			[]string{rendezvous, "full_finetune_distributed", "--config", "llama3_3/70B_full_multinode"},
		},
		"LoRA, one device": {
			"torchtune-llama3.2-1b", `{numProcPerNode: 1, args: ["model.lora_attn_modules=[q_proj]"]}`,
			[]string{"lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"},
		},
		"LoRA, several GPUs": {
			"torchtune-llama3.2-1b", `{args: ["model.lora_attn_modules=[q_proj]"]}`,
			[]string{rendezvous, "lora_finetune_distributed", "--config", "llama3_2/1B_lora"},
		},
		"QLoRA, one device": {
			"torchtune-llama3.2-1b", `{numProcPerNode: 1, args: ["model.lora_attn_modules=[q_proj]", model.quantize_base=True]}`,
			[]string{"lora_finetune_single_device", "--config", "llama3_2/1B_qlora_single_device"},
		},
		"QLoRA, several GPUs": {
			"torchtune-llama3.3-70b", `{args: ["model.quantize_base= TRUE"]}`,
			[]string{rendezvous, "lora_finetune_distributed", "--config", "llama3_3/70B_qlora"},
		},
		"a base that is not quantized is LoRA": {
			"torchtune-llama3.2-1b", `{numProcPerNode: 1, args: ["model.lora_attn_modules=[q_proj]", model.quantize_base=False]}`,
			[]string{"lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"},
		},
		"DoRA with a quantized base is LoRA": {
			"torchtune-llama3.2-1b", `{numProcPerNode: 1, args: ["model.lora_attn_modules=[q_proj]", model.quantize_base=True, model.use_dora=True]}`,
			[]string{"lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"},
		},
		"a runtime's variant for the HPC side has its model": {
			"torchtune-llama3.2-3b-hpc", `{}`,
			[]string{rendezvous, "full_finetune_distributed", "--config", "llama3_2/3B_full"},
		},
		"a runtime that is called otherwise has no model": {
			"mine", `{numProcPerNode: 1}`,
			[]string{"full_finetune_single_device", "--config", "_full_single_device"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, `
metadata: {name: tj}
spec:
  runtimeRef: {name: `+test.runtime+`}
  trainer: `+test.trainer, tuneRuntime)
			trainJob.Spec.Trainer.Command = []string{"tune", "run"}
			info.Trainer.Command = []string{"tune", "run"}
			args := slices.Clone(info.Trainer.Args)

			require.NoError(t, torch.New().EnforceMLPolicy(info, trainJob))

			want := slices.Concat([]string{"tune", "run"}, test.want, []string{
				"output_dir=/workspace/output",
				"tokenizer.path=/workspace/model/original/tokenizer.model",
				"tokenizer.merges_file=/workspace/model/merges.txt",
				"checkpointer.checkpoint_dir=/workspace/model",
			})
			assert.Equal(t, want, info.Trainer.Command)
			assert.Equal(t, args, info.Trainer.Args)
			assert.Equal(t, []string{"tune", "run"}, trainJob.Spec.Trainer.Command, "the TrainJob stays as it is")
		})
	}
}

func TestTorchtuneEnvironment(t *testing.T) {
	info, trainJob := trainertest.Info(t, `
metadata: {name: tj}
spec:
  runtimeRef: {name: torchtune-llama3.2-1b}
  trainer: {command: [tune, run], env: [{name: HF_HOME, value: /hf}]}`, tuneRuntime)

	require.NoError(t, torch.New().EnforceMLPolicy(info, trainJob))

	c := info.TrainingContainer()
	assert.Equal(t, []string{"HF_HOME", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"}, names(c.Env))
	assert.Equal(t, "auto", c.Env[2].Value)
	assert.Equal(t, v1alpha1.TrainerPort, c.Ports[0].ContainerPort)
}

func TestOnlyTheTrainJobsOwnCommandIsTorchtunes(t *testing.T) {
	tests := map[string]string{
		"the runtime's command does not count":       `{}`,
		"more words are the user's own command line": `{command: [tune, run, recipe]}`,
		"so is a shell's":                            `{command: [sh, -c, tune run]}`,
	}
	for name, trainer := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, `
metadata: {name: tj}
spec: {runtimeRef: {name: torchtune-llama3.2-1b}, trainer: `+trainer+`}`, tuneRuntime)

			require.NoError(t, torch.New().EnforceMLPolicy(info, trainJob))

			assert.Equal(t, trainJob.Spec.Trainer.Command, info.Trainer.Command)
			assert.Contains(t, names(info.TrainingContainer().Env), "PET_MASTER_ADDR")
		})
	}
}
