"""The recipes for clusters: their fields, their commands, and what they do on one machine."""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from saccade import cli
from tests.docs.pages import ROOT
from tests.training.runs import prepare, train

CLUSTER = ROOT / "examples" / "cluster"
BATCH_SCRIPTS = sorted(CLUSTER.glob("*.sbatch"))
TASK = CLUSTER / "train.sky.yaml"
MANIFESTS = sorted(CLUSTER.glob("*-job.yaml"))
DOCKERFILE = ROOT / "Dockerfile"

SBATCH = {
    "array": r"\d+-\d+",
    "cpus-per-task": r"\d+",
    "gpus-per-node": r"\d+",
    "job-name": r"[a-z-]+",
    "no-kill": "",
    "nodes": r"\d+",
    "ntasks": r"\d+",
    "ntasks-per-node": r"\d+",
    "open-mode": "append|truncate",
    "output": r"(%[xjAa]|[-.a-z])+",
    "requeue": "",
    "signal": r"(B:)?[A-Z0-9]+@\d+",
    "time": r"(\d+-)?\d+:\d{2}:\d{2}",
}
"""Options of sbatch that the scripts use, from its manual, with the form of their values."""

TEXT = str
SKY = {
    "name": TEXT,
    "num_nodes": int,
    "resources": {"accelerators": TEXT, "use_spot": bool},
    "envs": {"*": TEXT},
    "file_mounts": {"*": {"source": TEXT, "name": TEXT, "mode": TEXT}},
    "setup": TEXT,
    "run": TEXT,
}
"""Fields of a SkyPilot task that the file uses, and their types."""

POD = {
    "restartPolicy": TEXT,
    "terminationGracePeriodSeconds": int,
    "subdomain": TEXT,
    "containers": [
        {
            "name": TEXT,
            "image": TEXT,
            "command": [TEXT],
            "args": [TEXT],
            "env": [{"name": TEXT, "value": TEXT}],
            "resources": {"requests": {"*": TEXT}, "limits": {"*": TEXT}},
            "volumeMounts": [{"name": TEXT, "mountPath": TEXT}],
        }
    ],
    "volumes": [
        {
            "name": TEXT,
            "persistentVolumeClaim": {"claimName": TEXT},
            "emptyDir": {"medium": TEXT},
        }
    ],
}
HEAD = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"name": TEXT}}
KINDS = {
    "Job": {
        **HEAD,
        "spec": {
            "completionMode": TEXT,
            "completions": int,
            "parallelism": int,
            "backoffLimit": int,
            "template": {"spec": POD},
        },
    },
    "Service": {**HEAD, "spec": {"clusterIP": TEXT, "selector": {"*": TEXT}}},
}
"""Fields of Kubernetes objects that the manifests use (batch/v1, v1), and their types."""


def misfits(value, schema, place=""):
    """Yield the places where a value has unknown fields or other types than its schema."""
    if isinstance(schema, dict) and isinstance(value, dict):
        for name, part in value.items():
            if name in schema or "*" in schema:
                yield from misfits(part, schema.get(name, schema.get("*")), f"{place}.{name}")
            else:
                yield f"{place}.{name}"
    elif isinstance(schema, list) and isinstance(value, list):
        for part in value:
            yield from misfits(part, schema[0], place)
    elif not isinstance(schema, type) or type(value) is not schema:
        yield place


def finish(command, **options):
    """Run a command that must succeed; return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def shell(script):
    """Check a script for bash with `bash -n` and, if the machine has it, shellcheck."""
    finish(["bash", "-n"], input=script)
    if shutil.which("shellcheck"):
        finish(["shellcheck", "--shell=bash", "-"], input=script)


def saccade_commands(script):
    """Return the calls of saccade in a script, as lists of arguments."""
    lines = script.replace("\\\n", " ").splitlines()
    calls = [re.search(r"(?<![\w/#-])saccade (\w+ .*)", line) for line in lines if line[:1] != "#"]
    return [shlex.split(call[1]) for call in calls if call]


def require_valid(call):
    """Raise unless the options of a call are those of the verb."""
    verb, *arguments = call
    known = {
        option
        for parameter in typer.main.get_command(cli.app).commands[verb].params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {a.partition("=")[0] for a in arguments if a.startswith("--")} <= known


def manifests(path):
    return list(yaml.safe_load_all(path.read_text()))


def containers(path):
    jobs = [object for object in manifests(path) if object["kind"] == "Job"]
    return [c for job in jobs for c in job["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("path", BATCH_SCRIPTS, ids=lambda path: path.name)
def test_batch_script_has_valid_options_and_commands(path):
    text = path.read_text()
    shell(text)
    head, _, body = text.partition("set -euo pipefail")
    options = re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", head, re.MULTILINE)
    assert len(options) == text.count("#SBATCH") > 4
    for name, value in options:
        assert re.fullmatch(SBATCH[name], value), name
    (call,) = saccade_commands(body)
    require_valid(call)
    assert "Not tried on a real cluster" in head


def test_sky_task_has_valid_fields_and_commands():
    task = yaml.safe_load(TASK.read_text())
    assert list(misfits(task, SKY)) == []
    assert {mount["mode"] for mount in task["file_mounts"].values()} <= {"COPY", "MOUNT_CACHED"}
    shell(task["run"])
    shell(task["setup"])
    (call,) = saccade_commands(task["run"])
    require_valid(call)
    used = set(re.findall(r"\$\{?([A-Z]\w+)", task["run"]))
    assert {name for name in used if not name.startswith("SKYPILOT_")} == set(task["envs"])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifest_has_valid_fields_and_commands(path):
    for thing in manifests(path):
        assert list(misfits(thing, KINDS[thing["kind"]])) == []
        assert thing["apiVersion"] == {"Job": "batch/v1", "Service": "v1"}[thing["kind"]]
        if thing["kind"] == "Job":
            spec = thing["spec"]
            indexed = spec.get("completionMode") == "Indexed"
            assert indexed == ("completions" in spec)  # an Indexed job needs their number
            pod = spec["template"]["spec"]
            assert pod["restartPolicy"] in {"OnFailure", "Never"}
            volumes = {volume["name"] for volume in pod["volumes"]}
            mounts = {m["name"] for c in pod["containers"] for m in c["volumeMounts"]}
            assert mounts == volumes
    for container in containers(path):
        words = [*container.get("command", ["saccade"]), *container.get("args", [])]
        if "/bin/bash" in words:
            shell(words[-1])
            calls = saccade_commands(words[-1])
        else:
            calls = [words[words.index("saccade") + 1 :]]
        assert len(calls) == 1
        require_valid(calls[0])


def test_unknown_fields_and_types_are_misfits():
    job = manifests(CLUSTER / "compare-job.yaml")[0]
    job["spec"]["parallel"] = 3
    job["spec"]["backoffLimit"] = "8"
    job["spec"]["template"]["spec"]["containers"][0]["args"].append(4)
    assert sorted(misfits(job, KINDS["Job"])) == [
        ".spec.backoffLimit",
        ".spec.parallel",
        ".spec.template.spec.containers.args",
    ]


def test_pods_of_a_job_predict_all_parts():
    (job,) = manifests(CLUSTER / "predict-job.yaml")
    (container,) = containers(CLUSTER / "predict-job.yaml")
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    assert int(values["COUNT"]) == job["spec"]["completions"]


def instructions():
    """Return the instructions of the Dockerfile: their names and arguments."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def test_dockerfile_copies_files_that_exist_and_are_not_ignored():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [rule for rule in rules if rule and not rule.startswith("#")]
    assert rules[0] == "*"
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in instructions()} <= known
    stages, copied = set(), set()
    for name, text in instructions():
        if name == "FROM" and (stage := re.fullmatch(r"\$\{BASE\} AS (\w+)", text)):
            stages.add(stage[1])
        if name == "COPY":
            if source := re.match(r"--from=(\w+) ", text):
                assert source[1] in stages
                continue
            *names, _ = text.split()
            copied.update(names)
        if name == "RUN":
            shell(text)
    for name in copied:
        assert (ROOT / name).exists()
        assert any(fnmatch.fnmatch(name, rule) for rule in kept)
    assert kept == copied  # nothing else is sent to the daemon
    assert dict(instructions())["CMD"] == '["demo"]'


# what follows runs the commands on this machine


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """A folder with srun and scontrol for one machine, and this environment's commands."""
    folder = tmp_path_factory.mktemp("tools")
    srun = """#!/bin/bash
    while [[ $1 == -* ]]; do shift; done
    pids=() code=0
    for ((i = 0; i < SLURM_NTASKS; i++)); do
        SLURM_PROCID=$i SLURM_NODEID=$i SLURM_LOCALID=0 "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
    exit $code
    """
    programs = {
        "srun": srun,
        "scontrol": "#!/bin/bash\nprintf '127.0.0.1\\n127.0.0.1\\n'\n",
        "saccade": f'#!/bin/bash\nexec {sys.executable} -m saccade "$@"\n',
        "torchrun": f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "$@"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tiny recipe, its data and a run."""
    folder = prepare(tmp_path_factory.mktemp("shared") / "it")
    train(folder, "run", "training.max_steps=2")
    lines = (folder / "data" / "test.tsv").read_text().splitlines()[1:]
    (folder / "inputs.txt").write_text("".join(line.split("\t")[0] + "\n" for line in lines))
    return folder


def bash(script, tools, place, *arguments, **variables):
    """Run a script as a cluster would; return what it printed."""
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "SACCADE_CACHE": str(place / "cache"),
        "OMP_NUM_THREADS": "1",
        "PORT": "29611",
        **{name: str(value) for name, value in variables.items()},
    }
    command = ["bash", "-c", script, "script", *map(str, arguments)]
    return finish(command, env=environment, timeout=280)


def all_predictions(tools, place):
    return bash(
        'saccade predict "$1" --input "$2"', tools, place, place / "run", place / "inputs.txt"
    )


@pytest.mark.slow
def test_array_job_predicts_what_one_process_predicts(tools, place, tmp_path):
    script = (CLUSTER / "predict.sbatch").read_text()
    for task in (3, 1, 2):
        arguments = (place / "run", place / "inputs.txt", tmp_path / "parts")
        bash(script, tools, place, *arguments, SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_TASK_COUNT=3)
    parts = sorted((tmp_path / "parts").iterdir())
    assert len(parts) == 3
    assert "".join(part.read_text() for part in parts) == all_predictions(tools, place)


@pytest.mark.slow
def test_indexed_pods_predict_what_one_process_predicts(tools, place, tmp_path):
    (container,) = containers(CLUSTER / "predict-job.yaml")
    variables = {"RUN": place / "run", "INPUT": place / "inputs.txt", "PARTS": tmp_path, "COUNT": 2}
    for index in range(2):
        bash(container["command"][-1], tools, place, **variables, JOB_COMPLETION_INDEX=index)
    parts = sorted(tmp_path.glob("*.txt"))
    assert "".join(part.read_text() for part in parts) == all_predictions(tools, place)


@pytest.mark.slow
def test_tasks_of_a_job_share_out_a_comparison(tools, place, tmp_path):
    recipe = place / "tiny.toml"
    arguments = [f"one={recipe}", f"two={recipe}", "--data", place / "data", "--out", tmp_path]
    printed = bash(
        (CLUSTER / "compare.sbatch").read_text(),
        tools,
        place,
        *(*arguments, "--max-steps", 4),
        SLURM_NTASKS=2,
        SLURM_CPUS_PER_TASK=1,
    )
    assert (tmp_path / "compare.json").exists()
    assert printed.count("training one, seed 0") == printed.count("training two, seed 0") == 1


@pytest.mark.slow
def test_nodes_of_a_job_train_together(tools, place, tmp_path):
    arguments = [place / "tiny.toml", "--data", place / "data", "--out", tmp_path / "run"]
    for step in (4, 6):  # the second job resumes
        bash(
            (CLUSTER / "train.sbatch").read_text(),
            tools,
            place,
            *(*arguments, "--max-steps", step, "--device", "cpu"),
            SLURM_NTASKS=2,
            SLURM_NNODES=2,
            SLURM_JOB_ID=7,
            SLURM_JOB_NODELIST="node[1-2]",
        )
    assert '"world": 2' in (tmp_path / "run" / "run.json").read_text()
    assert (tmp_path / "run" / "checkpoints" / "step-6").is_dir()


@pytest.mark.slow
def test_sky_task_trains(tools, place, tmp_path):
    bash(
        yaml.safe_load(TASK.read_text())["run"],
        tools,
        place,
        RECIPE=place / "tiny.toml",
        DATA=place / "data",
        OUT=tmp_path / "run",
        MINUTES=0.05,
        SKYPILOT_NODE_IPS="127.0.0.1",
        SKYPILOT_NUM_NODES=1,
        SKYPILOT_TASK_ID="task",
    )
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.slow
def test_commands_of_the_dockerfile_build_and_install_the_wheel(tmp_path):
    """As far as that works offline: without isolation, without dependencies, into a folder."""
    (tmp_path / "src").mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "src" / "saccade", tmp_path / "src" / "saccade")
    runs = [text for name, text in instructions() if name == "RUN"]
    build = next(text for text in runs if "pip wheel" in text)
    install = next(text for text in runs if "*.whl" in text)
    target = tmp_path / "installed"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to write true
        "PIP_NO_DEPS": "1",
        "PIP_TARGET": str(target),
    }
    for command in (build, install.replace("/tmp/dist", str(tmp_path / "dist"))):
        finish(["bash", "-ec", command], cwd=tmp_path, env=environment)
    environment["PYTHONPATH"] = str(target)
    command = [sys.executable, "-m", "saccade", "recipes"]
    assert "transformer-tiny" in finish(command, cwd=tmp_path, env=environment)
