package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/plugins/torch"
	"github.com/gangline/gangline/controller/trainertest"
)

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		trainJob, runtime string
		want              field.ErrorList
	}{
		"torchrun's options are named together, sorted": {
			`spec: {trainer: {env: [{name: PET_NNODES}, {name: MINE}, {name: PET_MASTER_PORT}]}}`, runtime,
			field.ErrorList{field.Invalid(field.NewPath("spec", "trainer", "env"),
				[]corev1.EnvVar{{Name: "PET_NNODES"}, {Name: "MINE"}, {Name: "PET_MASTER_PORT"}},
				"must not have reserved envs, invalid envs configured: [PET_MASTER_PORT PET_NNODES]")},
		},
		"all five are reserved": {
			`spec: {trainer: {env: [{name: PET_NNODES}, {name: PET_NPROC_PER_NODE}, {name: PET_NODE_RANK}, {name: PET_MASTER_ADDR}, {name: PET_MASTER_PORT}]}}`, runtime,
			field.ErrorList{field.Invalid(field.NewPath("spec", "trainer", "env"),
				[]corev1.EnvVar{{Name: "PET_NNODES"}, {Name: "PET_NPROC_PER_NODE"}, {Name: "PET_NODE_RANK"}, {Name: "PET_MASTER_ADDR"}, {Name: "PET_MASTER_PORT"}},
				"must not have reserved envs, invalid envs configured: [PET_MASTER_ADDR PET_MASTER_PORT PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE]")},
		},
		"other options are the user's": {
			`spec: {trainer: {env: [{name: PET_RDZV_BACKEND, value: c10d}]}}`, runtime, nil,
		},
		"there may be no spec.trainer": {`spec: {}`, runtime, nil},
		"other frameworks may use the names": {
			`spec: {trainer: {env: [{name: PET_NNODES}]}}`, `spec: {mlPolicy: {jax: {}}}`, nil,
		},
		"so may runtimes without a policy": {
			`spec: {trainer: {env: [{name: PET_NNODES}]}}`, `spec: {}`, nil,
		},
		"each container that variables cannot be injected into": {
			`spec: {}`, `
spec:
  mlPolicy:
    torch:
      envInjection:
        targets:
        - {jobName: node, containerNames: [check, side, missing]}
        - {jobName: absent, containerNames: [side]}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {template: {spec: {initContainers: [{name: check}], containers: [{name: side}]}}}}`,
			field.ErrorList{
				field.Invalid(field.NewPath("spec", "runtimeRef"),
					v1alpha1.EnvInjectionTarget{JobName: "node", ContainerNames: []string{"check", "side", "missing"}},
					`envInjection target podSet "node" container "missing" not found in runtime template`),
				field.Invalid(field.NewPath("spec", "runtimeRef"),
					v1alpha1.EnvInjectionTarget{JobName: "absent", ContainerNames: []string{"side"}},
					`envInjection target podSet "absent" container "side" not found in runtime template`),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { assertRefused(t, test.trainJob, test.runtime, test.want) })
	}
}

func assertRefused(t *testing.T, trainJob, runtime string, want field.ErrorList) {
	t.Helper()
	info, job := trainertest.Info(t, trainJob, runtime)
	warnings, errs := torch.New().Validate(t.Context(), info, nil, job)
	assert.Equal(t, want, errs)
	assert.Empty(t, warnings)
}

func TestValidateTorchtune(t *testing.T) {
	var (
		runtimeName = field.NewPath("spec", "runtimeRef", "name")
		trainer     = field.NewPath("spec", "trainer")
		qlora       = `args: ["model.lora_attn_modules=[q_proj, v_proj]", model.quantize_base=True]`
	)
	noResources := func() *corev1.ResourceRequirements { return nil }
	tests := map[string]struct {
		runtime, trainer string
		want             field.ErrorList
	}{
		"a supported model on its own":          {"torchtune-llama3.2-1b", `numNodes: 1`, nil},
		"the largest model on several nodes":    {"torchtune-llama3.3-70b", `numNodes: 4`, nil},
		"LoRA on one node":                      {"torchtune-llama3.3-70b", `args: ["model.lora_attn_modules=[q_proj]"]`, nil},
		"QLoRA on one device":                   {"torchtune-llama3.2-3b", `numProcPerNode: 1, ` + qlora, nil},
		"QLoRA of the largest on several":       {"torchtune-llama3.3-70b", qlora, nil},
		"a config that the runtime leaves open": {"torchtune-llama3.2-1b", `args: [epochs=3, dataset.source=parquet]`, nil},
		"an unknown model": {"torchtune-llama3.1-70b", `numNodes: 1`, field.ErrorList{
			field.Invalid(runtimeName, "torchtune-llama3.1-70b", "must have a supported pretrained model, invalid model configured: llama3_1/70B"),
		}},
		"an unknown model on several nodes": {"mine", `numNodes: 2`, field.ErrorList{
			field.Invalid(runtimeName, "mine", "must have a supported pretrained model, invalid model configured: "),
			field.Invalid(trainer.Child("numNodes"), int32(2), "must be 1 for  model"),
		}},
		"a small model on several nodes": {"torchtune-llama3.2-3b", `numNodes: 2`, field.ErrorList{
			field.Invalid(trainer.Child("numNodes"), int32(2), "must be 1 for llama3_2/3B model"),
		}},
		"QLoRA of qwen": {"torchtune-qwen2.5-1.5b", `numProcPerNode: 1, ` + qlora, field.ErrorList{
			field.Invalid(runtimeName, "torchtune-qwen2.5-1.5b", "QLoRA is not supported for qwen2_5/1.5B model"),
		}},
		"QLoRA of qwen on several devices": {"torchtune-qwen2.5-1.5b", qlora, field.ErrorList{
			field.Invalid(runtimeName, "torchtune-qwen2.5-1.5b", "QLoRA is not supported for qwen2_5/1.5B model"),
		}},
		"QLoRA of llama on the runtime's two GPUs": {"torchtune-llama3.2-1b", qlora, field.ErrorList{
			field.Invalid(trainer.Child("numProcPerNode"), intstr.FromString("auto"), "must be auto or 1 for llama3_2/1B model when using QLoRA"),
			field.Invalid(trainer.Child("resourcesPerNode"), noResources(), "must have gpu resource with value 1 for llama3_2/1B model when using QLoRA"),
		}},
		"QLoRA of llama in two processes": {"torchtune-llama3.2-3b", `numProcPerNode: 2, ` + qlora, field.ErrorList{
			field.Invalid(trainer.Child("numProcPerNode"), intstr.FromInt32(2), "must be auto or 1 for llama3_2/3B model when using QLoRA"),
			field.Invalid(trainer.Child("resourcesPerNode"), noResources(), "must have gpu resource with value 1 for llama3_2/3B model when using QLoRA"),
		}},
		"LoRA on several nodes": {"torchtune-llama3.3-70b", `numNodes: 2, args: ["model.lora_attn_modules=[q_proj]"]`, field.ErrorList{
			field.Invalid(trainer.Child("numNodes"), int32(2), "LoRA fine-tuning is not supported for multi-node training in TorchTune"),
		}},
		"QLoRA of a small model on several nodes": {"torchtune-llama3.2-1b", `numNodes: 2, ` + qlora, field.ErrorList{
			field.Invalid(trainer.Child("numNodes"), int32(2), "must be 1 for llama3_2/1B model"),
			field.Invalid(trainer.Child("numNodes"), int32(2), "LoRA fine-tuning is not supported for multi-node training in TorchTune"),
		}},
		"configs that the runtime manages": {"torchtune-llama3.2-1b",
			`args: [epochs=1, output_dir=/o, tokenizer.path=/t, tokenizer.merges_file=/m, checkpointer.checkpoint_dir=/c]`, field.ErrorList{
				field.Invalid(trainer.Child("args").Index(1), "output_dir=/o", `must not set immutable config "output_dir" in trainer args; it is managed by the runtime`),
				field.Invalid(trainer.Child("args").Index(2), "tokenizer.path=/t", `must not set immutable config "tokenizer.path" in trainer args; it is managed by the runtime`),
				field.Invalid(trainer.Child("args").Index(3), "tokenizer.merges_file=/m", `must not set immutable config "tokenizer.merges_file" in trainer args; it is managed by the runtime`),
				field.Invalid(trainer.Child("args").Index(4), "checkpointer.checkpoint_dir=/c", `must not set immutable config "checkpointer.checkpoint_dir" in trainer args; it is managed by the runtime`),
			}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assertRefused(t, `
spec:
  runtimeRef: {name: `+test.runtime+`}
  trainer: {command: [tune, run], `+test.trainer+`}`, tuneRuntime, test.want)
		})
	}
	t.Run("other commands are not torchtune's", func(t *testing.T) {
		assertRefused(t, `
spec:
  runtimeRef: {name: mine}
  trainer: {command: [torchrun], numNodes: 2, args: [output_dir=/o]}`, tuneRuntime, nil)
	})
}
