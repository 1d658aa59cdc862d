"""A pipeline with a step that trains on the HPC side.

Needs the package kfp (2.x):  python pipeline.py  writes pipeline.yaml, to be uploaded.
"""

import pathlib

from kfp import compiler, components, dsl

here = pathlib.Path(__file__).parent
run_trainjob = components.load_component_from_file(str(here / "component.yaml"))


@dsl.pipeline(name="train-on-hpc")
def pipeline(trainjob: str = (here / "trainjob.yaml").read_text()):
    step = run_trainjob(trainjob=trainjob)
    step.set_caching_options(False)  # a training is not repeated for nothing, but never left out either


if __name__ == "__main__":
    compiler.Compiler().compile(pipeline, str(here / "pipeline.yaml"))
