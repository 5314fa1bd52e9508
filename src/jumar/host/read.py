"""`read_host`: everything that `HostFacts` holds, asked of one source in one order."""

from __future__ import annotations

from jumar.host.facts import HostFacts
from jumar.host.readers import files, machine, process
from jumar.host.readers.cards import read_cards
from jumar.host.readers.container import read_container
from jumar.host.readers.notes import Notes
from jumar.host.readers.nvidia import read_nvidia
from jumar.host.readers.software import Software
from jumar.host.source import HostSource, open_source


def open_host(host: str | None = None, *, deep: bool = True) -> HostFacts:
    """The facts of this machine (None) or of a recorded one (folder, archive, saved output).

    Raises InvalidInput where `host` is no recorded host.
    """
    return read_host(open_source(host), deep=deep)


def read_software(source: HostSource) -> HostFacts:
    """Only driver, firmware and CANN: a few files, and no program is run."""
    notes = Notes()
    environ = process.read_environ(source, notes)
    software = Software(source, notes)
    canns, links = software.canns(environ)
    return HostFacts(
        source=source.name,
        environ=environ,
        driver=software.driver(),
        firmware=software.firmware(),
        canns=canns,
        links=links,
        unseen=notes.unseen,
        unread=tuple(notes.unread),
    )


def read_host(source: HostSource, *, deep: bool = True) -> HostFacts:
    """Ask `source` for every part. `deep` adds npu-smi's slower queries per card."""
    notes = Notes()
    told = process.read_process(source, notes)
    user = process.read_user(told)
    environ = process.read_environ(source, notes)
    mounts = machine.read_mount_points(source, notes)
    paths = files.read_paths(source, notes)
    nodes = files.read_nodes(source, notes, user)
    npu_smi, cards = read_cards(source, notes, nodes, deep=deep)
    software = Software(source, notes)
    canns, links = software.canns(environ)
    nnal, nnal_links = software.nnal(environ)
    return HostFacts(
        source=source.name,
        system=machine.read_system(source, notes, told),
        user=user,
        container=read_container(source, notes, environ, paths, mounts),
        environ=environ,
        python=process.read_python(source, notes, told),
        npu_smi=npu_smi,
        cards=cards,
        nvidia=read_nvidia(source, notes),
        pci=machine.read_pci(source, notes),
        nodes=nodes,
        driver=software.driver(),
        firmware=software.firmware(),
        install_info=software.install_info,
        canns=canns,
        links=tuple(dict.fromkeys([*links, *nnal_links])),
        nnal=nnal,
        mindie=software.printed_versions("mindie", "mindie/latest", "mindie"),
        atb_models=software.printed_versions("atb_models", "atb-models", "llm_model"),
        hccn=machine.read_hccn(source, notes),
        paths=paths,
        disks=machine.read_disks(source, notes, told, mounts),
        ports=machine.read_ports(source, notes),
        unseen=notes.unseen,
        unread=tuple(notes.unread),
    )
