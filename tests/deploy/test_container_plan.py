"""Container plans: only what the host has, everything that the product needs, a reason for each."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.host.ascend_hosts import LINES, ROOT, UB_FILES, Spec, healthy
from tests.host.recorded import make_host

from jumar.contracts.errors import DeviceUnavailable, InvalidValue
from jumar.deploy.container import compose, docker, kubernetes, plan
from jumar.deploy.container.base import needs
from jumar.deploy.container.images import brings_cann, cann_in_tag, variant_of
from jumar.host import open_host
from jumar.host.facts import HostFacts

GOLDEN = Path(__file__).parent / "golden"
FORMATS: dict[str, Callable[..., str]] = {
    "docker": docker,
    "compose": compose,
    "kubernetes": kubernetes,
}
IMAGES = {
    "910b": "quay.io/ascend/vllm-ascend:v0.13.0",
    "a3": "quay.io/ascend/vllm-ascend:v0.13.0-a3-openeuler",
    "310p": "quay.io/ascend/vllm-ascend:v0.13.0-310p",
    "310b": "ascend/cann:8.5.0-310b-ubuntu22.04-py3.11",
    "950": "registry.example/vllm-project/semantic-router/vllm-sr:latest",
}
CPU_IMAGE = "python:3.11-slim"


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., HostFacts]:
    """The facts of a recorded host that is made of a spec."""

    def make(spec: Spec) -> HostFacts:
        return open_host(make_host(tmp_path, **spec))

    return make


Host = Callable[[Spec], HostFacts]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("line", LINES)
def test_the_plan_of_each_product_is_the_reviewed_one(line: str, form: str, host: Host) -> None:
    """Set JUMAR_UPDATE_GOLDEN=1 to write the files anew, then read them."""
    made = plan(host(healthy(line)), IMAGES[line])
    text = FORMATS[form](made, explain=form != "docker" or line == "950")
    file = GOLDEN / f"{line}.{form}.txt"
    if os.environ.get("JUMAR_UPDATE_GOLDEN") == "1":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("line", LINES)
def test_a_whole_host_leaves_no_need_out(line: str, host: Host) -> None:
    for cann in ("host", "image"):
        made = plan(host(healthy(line)), CPU_IMAGE, cann=cann)  # type: ignore[arg-type]
        assert made.problems == ()
        assert made.warnings == ()


@pytest.mark.parametrize("line", LINES)
def test_a_source_that_is_missing_is_never_mounted(line: str, host: Host) -> None:
    spec = healthy(line)
    gone = f"/usr/local/{'sbin' if line == '310b' else 'bin'}/npu-smi"
    del spec["files"][gone]
    made = plan(host(spec), CPU_IMAGE)
    assert gone not in {mount.source for mount in made.mounts}
    assert gone in {one.path for one in made.left_out}
    for write in FORMATS.values():
        text = write(made)
        assert f"src={gone}" not in text and f"source: {gone}" not in text
        assert f"#   {gone}: does not exist on this host" in text


def test_a_folder_where_a_file_belongs_is_not_mounted(host: Host) -> None:
    spec = healthy()
    del spec["files"]["/etc/ascend_install.info"]
    spec["directories"].append("/etc/ascend_install.info")
    made = plan(host(spec), CPU_IMAGE)
    (left,) = (one for one in made.left_out if one.path == "/etc/ascend_install.info")
    assert left.why == "is a directory on this host, and should be a file"


@pytest.mark.parametrize("line", LINES)
def test_a_whole_library_folder_is_never_mounted(line: str, host: Host) -> None:
    made = plan(host(healthy(line)), CPU_IMAGE)
    assert not {"/usr/lib64", "/usr/lib", "/lib64"} & {mount.source for mount in made.mounts}


def test_a_950_gets_each_ub_library_as_a_file_and_no_devmm_svm(host: Host) -> None:
    made = plan(host(healthy("950")), CPU_IMAGE)
    mounted = {mount.source: mount.kind for mount in made.mounts}
    assert {f"/usr/lib64/{name}" for name in UB_FILES} <= set(mounted)
    assert mounted["/usr/lib64/urma"] == "directory"
    assert "/dev/devmm_svm" not in docker(made)
    assert made.option("privileged") is not None
    shm = made.option("shm-size")
    assert shm is not None and shm.value == "16g"


def test_a_950_without_ub_libraries_is_a_problem(host: Host) -> None:
    spec = healthy("950")
    for name in UB_FILES:
        del spec["files"][f"/usr/lib64/{name}"]
    made = plan(host(spec), CPU_IMAGE)
    assert [one.path for one in made.problems] == ["/usr/lib64/liburma*", "/usr/lib64/libummu*"]


def test_the_ascend_runtime_takes_the_place_of_privileged(host: Host) -> None:
    spec = healthy("950")
    spec["directories"].append(f"{ROOT}/Ascend-Docker-Runtime")
    made = plan(host(spec), CPU_IMAGE, devices=["0", "2"])
    assert made.option("privileged") is None
    runtime = made.option("runtime")
    assert runtime is not None and runtime.value == "ascend"
    assert [(v.name, v.value) for v in made.environment] == [("ASCEND_VISIBLE_DEVICES", "0,2")]


def test_a_privileged_container_is_narrowed_by_logic_ids(host: Host) -> None:
    made = plan(host(healthy("950")), CPU_IMAGE, devices=["2"])
    assert [(v.name, v.value) for v in made.environment] == [("ASCEND_RT_VISIBLE_DEVICES", "2")]


def test_a_subset_by_device_nodes_sets_no_variable(host: Host) -> None:
    """Inside, the given cards count from 0: a list of host numbers would be wrong there."""
    made = plan(host(healthy("a3")), IMAGES["a3"], devices=["6", "7"])
    assert made.environment == ()
    cards = [d.path for d in made.devices if d.path.removeprefix("/dev/davinci").isdecimal()]
    assert cards == ["/dev/davinci6", "/dev/davinci7"]


def test_a_card_that_does_not_exist_is_refused_with_the_valid_ones(host: Host) -> None:
    with pytest.raises(InvalidValue) as caught:
        plan(host(healthy()), IMAGES["910b"], devices=["5"])
    assert caught.value.message == "This host has no /dev/davinci5."
    assert "Valid: 0, 1." in str(caught.value.hint)


def test_a_host_without_an_npu_is_refused(host: Host) -> None:
    with pytest.raises(DeviceUnavailable, match="no /dev/davinciN"):
        plan(host({}), CPU_IMAGE)


@pytest.mark.parametrize(
    ("line", "image", "hint"),
    [
        ("310p", IMAGES["910b"], "Use quay.io/ascend/vllm-ascend:v0.13.0-310p"),
        ("a3", "vllm-ascend:v0.13.0-openeuler", "Use vllm-ascend:v0.13.0-a3-openeuler"),
        ("910b", IMAGES["a3"], "Use quay.io/ascend/vllm-ascend:v0.13.0-openeuler"),
        ("950", IMAGES["910b"], "vllm-ascend has no image for 950."),
        ("910b", "ascend/cann:8.5.0-a3-ubuntu22.04", "Take the image of the product line 910b."),
    ],
)
def test_an_image_for_another_chip_is_refused_with_the_right_one(
    line: str, image: str, hint: str, host: Host
) -> None:
    with pytest.raises(InvalidValue) as caught:
        plan(host(healthy(line)), image)
    assert caught.value.hint == hint


def test_an_image_for_another_processor_is_refused(host: Host) -> None:
    with pytest.raises(InvalidValue, match="is for x86_64; this host is aarch64"):
        plan(host(healthy()), "example/app:1.0-amd64")


@pytest.mark.parametrize(
    ("image", "variant", "cann"),
    [
        ("quay.io/ascend/vllm-ascend:v0.11.0rc1-310p", "310p", True),
        ("quay.io/ascend/vllm-ascend@sha256:00", "910b", True),
        ("ascend/cann:8.3.RC1-910b-ubuntu22.04-py3.12", "910b", True),
        ("localhost:5000/vllm-sr:latest", None, False),
        ("ubuntu:22.04", None, False),
    ],
)
def test_image_names_are_read(image: str, variant: str | None, cann: bool) -> None:
    assert (variant_of(image), brings_cann(image)) == (variant, cann)


def test_the_version_of_cann_is_read_from_the_tag() -> None:
    assert cann_in_tag("ascend/cann:8.3.rc1-910b-ubuntu22.04") == "8.3.RC1"
    assert cann_in_tag("ascend/cann:latest") is None


def test_another_user_gets_the_group_of_the_nodes_and_a_warning(host: Host) -> None:
    made = plan(host(healthy()), CPU_IMAGE, user="2000:2000")
    assert [(o.name, o.value) for o in made.options][-2:] == [
        ("user", "2000:2000"),
        ("group-add", "1000"),
    ]
    assert "passwd entry" in made.warnings[0]
    pod = yaml.safe_load(kubernetes(made))
    assert pod["spec"]["securityContext"] == {
        "runAsUser": 2000,
        "runAsGroup": 2000,
        "supplementalGroups": [1000],
    }


def test_root_needs_no_group(host: Host) -> None:
    assert plan(host(healthy()), CPU_IMAGE, user="0:0").option("group-add") is None


def test_a_held_card_is_warned_of(host: Host) -> None:
    spec = healthy()
    spec["holders"] = {"/dev/davinci1": [{"pid": 4711, "name": "vllm", "container": None}]}
    assert plan(host(spec), CPU_IMAGE, devices=["0"]).warnings == ()
    (warning,) = plan(host(spec), CPU_IMAGE, devices=["1"]).warnings
    assert warning.startswith("/dev/davinci1 is held by pid 4711 vllm")


def test_a_virtual_npu_is_handed_over_privileged(host: Host) -> None:
    spec = healthy()
    spec["nodes"] = {name: {} for name in ("vdavinci100", "davinci_manager", "hisi_hdc")}
    spec["nodes"]["devmm_svm"] = {}
    made = plan(host(spec), CPU_IMAGE, devices=["v100"])
    assert made.cards == (100,)
    assert made.option("privileged") is not None


def steps(facts: HostFacts, image: str = CPU_IMAGE, **options: Any) -> list[str]:
    return [step.run for step in plan(facts, image, **options).steps]


def test_the_library_path_follows_the_layout_of_the_new_cann(host: Host) -> None:
    (line,) = (step for step in steps(host(healthy("950"))) if "LD_LIBRARY_PATH" in step)
    folders = line.removeprefix("export LD_LIBRARY_PATH=").split(":")
    assert folders[:2] == [f"{ROOT}/cann-8.5.0/lib64", f"{ROOT}/cann-8.5.0/aarch64-linux/lib64"]
    assert folders[-3:] == ["/usr/lib64", "${LD_LIBRARY_PATH", "-}"]


def test_the_library_path_follows_the_layout_of_the_old_cann(host: Host) -> None:
    spec = healthy()
    old = f"{ROOT}/ascend-toolkit/8.1.RC1"
    new = f"{ROOT}/cann-8.5.0"
    spec["files"] = {
        path.replace(f"{new}/aarch64-linux", old).replace(new, old): text
        for path, text in spec["files"].items()
    }
    info = f"{old}/ascend_toolkit_install.info"
    spec["files"][info] = spec["files"][info].replace("8.5.0", "8.1.RC1")
    spec["directories"] = [
        path.replace(new, old) for path in spec["directories"] if "aarch64-linux" not in path
    ]
    spec["links"] = {f"{ROOT}/ascend-toolkit/latest": "8.1.RC1"}
    spec["env"] = {}
    facts = host(spec)
    assert facts.cann is not None and facts.cann.version == "8.1.RC1"
    text = "\n".join(steps(facts))
    assert f"LD_LIBRARY_PATH={old}/lib64:{ROOT}/driver" in text
    assert "2.5.1) npu=2.5.1;;" in text


def test_torch_npu_is_the_one_of_cann_and_torch(host: Host) -> None:
    facts = host(healthy())
    assert "python3 -m pip install torch_npu==2.7.1.post2 pyyaml setuptools" in steps(
        facts, torch="2.7.1+cpu"
    )
    text = "\n".join(steps(facts))
    assert "2.7.1) npu=2.7.1.post2;;" in text
    assert "npu=none" in text


def test_an_image_that_has_torch_npu_gets_none_installed(host: Host) -> None:
    assert not [step for step in steps(host(healthy()), IMAGES["910b"]) if "pip install" in step]


def test_links_out_of_the_ascend_folder_are_mounted_too(host: Host) -> None:
    spec = healthy()
    far, near = "/data/Ascend/cann-8.5.0", f"{ROOT}/cann-8.5.0"
    spec["files"] = {path.replace(near, far): text for path, text in spec["files"].items()}
    spec["directories"] = [path.replace(near, far) for path in spec["directories"]]
    spec["links"] = {f"{ROOT}/cann": far, f"{ROOT}/ascend-toolkit/latest": far}
    spec["env"] = {}
    made = plan(host(spec), CPU_IMAGE)
    assert far in {mount.source for mount in made.mounts}


def test_the_docker_command_is_one_that_a_shell_reads(host: Host) -> None:
    made = plan(host(healthy("950")), CPU_IMAGE, command=["vllm-srun", "serve", "my model"])
    words = shlex.split(docker(made).split("\n\n#")[0].replace("\\\n", ""))
    assert words[:2] == ["docker", "run"]
    assert words[-1].endswith("exec vllm-srun serve 'my model'")
    assert "; set -e; " in words[-1]


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_a_plan_has_its_reason(line: str, host: Host) -> None:
    made = plan(host(healthy(line)), CPU_IMAGE, user="1000")
    parts = [*made.devices, *made.mounts, *made.options, *made.environment, *made.steps]
    assert all(part.why for part in parts)
    text = compose(made, explain=True)
    assert all(mount.why in text for mount in made.mounts)
    assert all(option.why in text for option in made.options if option.name != "user")


def test_compose_and_pod_refuse_missing_sources(host: Host) -> None:
    made = plan(host(healthy("310p")), CPU_IMAGE)
    service = yaml.safe_load(compose(made))["services"]["jumar"]
    assert all(v["bind"] == {"create_host_path": False} for v in service["volumes"])
    assert "$${LD_LIBRARY_PATH:-}" in service["command"][0]
    pod = yaml.safe_load(kubernetes(made))
    kinds = {v["hostPath"]["type"] for v in pod["spec"]["volumes"] if "hostPath" in v}
    assert kinds == {"File", "Directory"}
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"huawei.com/Ascend310P": 8}


def test_rows_are_for_known_products_only() -> None:
    rows = needs()
    for row in (*rows.devices, *rows.mounts, *rows.shm):
        assert set(row.products) <= {*LINES, "910"}
    assert set(rows.resources) == {*LINES, "910"}


@settings(max_examples=40, deadline=None)
@given(line=st.sampled_from(sorted(LINES)), data=st.data())
def test_whatever_paths_are_missing_or_unseen_no_plan_mounts_them(
    line: str, data: st.DataObject
) -> None:
    facts = whole_host(line)
    hidden = data.draw(st.sets(st.sampled_from(sorted(facts.paths))))
    seen = {path: fact for path, fact in facts.paths.items() if path not in hidden}
    made = plan(replace(facts, paths=seen), CPU_IMAGE)
    assert not hidden & {mount.source for mount in made.mounts}
    for write in FORMATS.values():
        assert write(made, explain=True)


@cache
def whole_host(line: str) -> HostFacts:
    with TemporaryDirectory() as folder:
        return open_host(make_host(Path(folder), **healthy(line)))


def test_compose_knows_users_groups_and_variables(host: Host) -> None:
    spec = healthy("950")
    spec["directories"].append(f"{ROOT}/Ascend-Docker-Runtime")
    made = plan(host(spec), CPU_IMAGE, devices=["1"], user="1000")
    service = yaml.safe_load(compose(made, explain=True))["services"]["jumar"]
    assert service["user"] == "1000"
    assert service["group_add"] == ["1000"]
    assert service["runtime"] == "ascend"
    assert service["environment"] == {"ASCEND_VISIBLE_DEVICES": "1"}
    assert "privileged" not in service
    assert "container runtime must be the Ascend one" in kubernetes(made)


def test_a_host_whose_product_nobody_can_tell_is_refused(host: Host) -> None:
    spec = {"nodes": ["davinci0", "davinci_manager", "hisi_hdc", "devmm_svm"]}
    with pytest.raises(DeviceUnavailable, match="which Ascend product"):
        plan(host(spec), CPU_IMAGE)


@pytest.mark.parametrize(
    "user", ["", "npu", "1000:", ":1000", "1000:npu", "-1", "1000 --privileged"]
)
def test_a_user_that_is_no_number_is_refused(user: str, host: Host) -> None:
    with pytest.raises(InvalidValue, match=r"UID\[:GID\]"):
        plan(host(healthy()), CPU_IMAGE, user=user)


def mixed() -> Spec:
    """A machine with a 910B3 and a 310P3, as no report has it."""
    spec = healthy()
    spec["npu_smi"] = spec["npu_smi"].replace("1     910B3", "1     310P3", 1)
    return spec


def test_cards_of_two_products_need_two_containers(host: Host) -> None:
    facts = host(mixed())
    with pytest.raises(InvalidValue, match="Ascend910B3, Ascend310P3"):
        plan(facts, CPU_IMAGE)
    lines = [plan(facts, CPU_IMAGE, devices=[n]).line for n in "01"]
    assert lines == ["910b", "310p"]
    with pytest.raises(InvalidValue, match="this host has Ascend310P3"):
        plan(facts, IMAGES["910b"], devices=["1"])


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("image", ["own", "cpu"])
def test_reasons_are_comments_and_change_nothing(
    line: str, form: str, image: str, host: Host
) -> None:
    name = IMAGES[line] if image == "own" else CPU_IMAGE
    command = ("python3", "-c", "print('a $HOME', \"b\")")
    made = plan(host(healthy(line)), name, user="1000:1000", command=command)
    plain, explained = FORMATS[form](made), FORMATS[form](made, explain=True)
    if form == "docker":
        assert explained.startswith(plain.split("\n#")[0])
        assert (
            subprocess.run(["bash", "-n"], input=explained, text=True, check=False).returncode == 0
        )
    else:
        assert yaml.safe_load(plain) == yaml.safe_load(explained)


def test_a_cann_of_unknown_version_is_called_so(host: Host) -> None:
    steps = plan(host(healthy()), "ascend/cann:latest").steps
    assert "the version of CANN is not known: the build of that name is tried" in {
        step.why for step in steps
    }
    assert not any("None" in f"{step.run} {step.why}" for step in steps)
