"""Two machines for trainings: network namespaces of this one, with an agent of torchrun in each.

They share neither network interfaces nor HOME, caches and run folders. Needs root and iproute2.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.training.runs import metrics

PORT = 29400


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


def possible():
    """Return whether this process may create network namespaces."""
    if not sys.platform.startswith("linux") or os.geteuid() or not shutil.which("ip"):
        return False
    name = f"saccade-{os.getpid()}"
    created = ip("netns", "add", name, check=False).returncode == 0
    ip("netns", "del", name, check=False)
    return created


@dataclass
class Machine:
    """One machine: its files, and its agent."""

    number: int
    place: Path
    processes: int = 2
    agent: subprocess.Popen | None = None
    outputs: list[Path] = field(default_factory=list)

    @property
    def namespace(self):
        return f"saccade-{os.getpid()}-{self.number}"

    @property
    def interface(self):
        return f"sac{os.getpid() % 100000}x{self.number}"

    @property
    def address(self):
        return f"10.77.13.{self.number + 1}"

    @property
    def out(self):
        return self.place / "run"

    def start(self, arguments, *, restarts=5):
        """Start the agent, with a command line as in the documentation."""
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        command += ["--nproc-per-node", str(self.processes), "--rdzv-backend", "c10d"]
        command += ["--rdzv-endpoint", f"10.77.13.1:{PORT}", "--rdzv-id", "it"]
        command += ["--max-restarts", str(restarts), "--local-addr", self.address]
        command += ["--rdzv-conf", f"is_host={int(self.number == 0)}", "-m", "saccade"]
        env = {
            **os.environ,
            "HOME": str(self.place / "home"),
            "GLOO_SOCKET_IFNAME": self.interface,
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "OMP_NUM_THREADS": "1",
        }
        output = self.place / f"output-{len(self.outputs)}"
        self.outputs.append(output)
        with output.open("w") as file:
            self.agent = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command, *arguments, "--out", self.out],
                env=env,
                stdout=file,
                stderr=file,
            )

    def kill(self):
        """Kill the agent as a crash of the machine would, without a chance to clean up."""
        self.agent.send_signal(signal.SIGKILL)
        self.agent.wait(10)

    def end(self, seconds=150):
        """Wait for the agent; return its exit code and all output."""
        try:
            code = self.agent.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            code = "it hangs"
        return code, self.output()

    def output(self):
        return "\n".join(path.read_text() for path in self.outputs)

    def steps(self):
        """Return the steps that have a checkpoint here."""
        names = [path.name for path in self.out.glob("checkpoints/step-*")]
        return sorted(int(name.removeprefix("step-")) for name in names)

    def files(self):
        """Return the content of all files of the run."""
        return {
            str(path.relative_to(self.out)): path.read_bytes()
            for path in self.out.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }

    def metrics(self):
        return metrics(self.out)


@contextlib.contextmanager
def two_machines(folder, processes=2):
    """Give two machines whose interfaces are connected."""
    machines = [Machine(number, folder / f"machine-{number}", processes) for number in range(2)]
    one, other = machines
    try:
        for machine in machines:
            (machine.place / "home").mkdir(parents=True, exist_ok=True)
            ip("netns", "add", machine.namespace)
        ip("link", "add", one.interface, "type", "veth", "peer", "name", other.interface)
        for machine in machines:
            inside = ("-n", machine.namespace)
            ip("link", "set", machine.interface, "netns", machine.namespace)
            ip(*inside, "addr", "add", f"{machine.address}/24", "dev", machine.interface)
            for interface in (machine.interface, "lo"):
                ip(*inside, "link", "set", interface, "up")
        yield machines
    finally:
        for machine in machines:
            if machine.agent is not None and machine.agent.poll() is None:
                machine.kill()
            ip("netns", "del", machine.namespace, check=False)


def until(condition, machines, seconds=120):
    """Wait for a condition; an AssertionError with all output if it takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "\n\n".join(machine.output() for machine in machines)
        time.sleep(0.05)
