"""Types and values of the shipped captures against what the servers' catalogs and SELECT say."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from dissector.catalogue.types import TYPES
from dissector.decode import values
from dissector.spec import Dialect
from dissector.values import type_name, value

CAPTURES = Path(__file__).parent.parent / "captures"
NAMES = sorted(p.name.partition(".")[0] for p in CAPTURES.glob("pg*.truth.jsonl.gz"))
CODECS = {"UTF8": "utf-8", "LATIN1": "latin-1"}

NEEDS_CATALOG = {"c_regclass"}
"""Binary regclass is an OID; its text is a name that only the server's catalog knows."""


def replay(name):
    """Facts of the capture, and the server's messages as (kind, fields) in order."""
    facts = json.loads((CAPTURES / f"{name}.json").read_text())
    release = int(facts["server_version"].partition(".")[0])
    parallel = facts["options"].get("streaming") == "parallel"
    proto = int(facts["options"]["proto_version"])
    found, in_stream = [], False
    with gzip.open(CAPTURES / f"{name}.truth.jsonl.gz", "rt") as lines:
        for line in lines:
            data = bytes.fromhex(json.loads(line)["data"])
            message = values(data, "pgoutput", Dialect(release, proto, in_stream, parallel))
            kind = message.path[0]
            in_stream = kind == "Stream Start" or (in_stream and kind != "Stream Stop")
            found.append((kind, message.fields))
    return facts, found


@pytest.mark.parametrize("name", NAMES)
def test_type_names_are_the_servers(name):
    facts, messages = replay(name)
    columns = {
        (relation["oid"], column["name"], column["type_oid"], column["typmod"]): column["type"]
        for relation in facts["relations"]
        for column in relation["columns"]
    }
    codec = CODECS[facts["client_encoding"]]
    compared = 0
    for kind, fields in messages:
        if kind == "Relation":
            for column in fields["columns"]:
                oid, modifier = column["type_oid"], column["type_modifier"]
                key = (fields["relation_oid"], column["name"].decode(codec), oid, modifier)
                if key in columns and oid in TYPES:
                    assert type_name(oid, modifier) == columns[key]
                    compared += 1
    assert compared


@pytest.mark.parametrize("name", NAMES)
def test_selected_values_were_decoded(name):
    """Every cell that SELECT returns was sent: some row change of that column had this very text."""
    facts, messages = replay(name)
    codec = CODECS[facts["client_encoding"]]
    types, relations = {}, {}
    sent = defaultdict(set)
    for kind, fields in messages:
        if kind == "Type":
            schema = fields["namespace"].decode(codec) or "pg_catalog"
            types[fields["type_oid"]] = f"{schema}.{fields['name'].decode(codec)}"
        elif kind == "Relation":
            relations[fields["relation_oid"]] = fields
        elif "new" in fields:
            relation = relations[fields["relation_oid"]]
            table = (
                f"{relation['namespace'].decode(codec)}.{relation['relation_name'].decode(codec)}"
            )
            pairs = zip(relation["columns"], fields["new"]["columns"], strict=True)
            for column, cell in pairs:
                state = "binary" if "binary_kind" in cell else "text"
                if "value" in cell:
                    oid, modifier = column["type_oid"], column["type_modifier"]
                    text = value(oid, modifier, cell["value"], state, codec, types).text
                    sent[fields["relation_oid"], column["name"].decode(codec)].add(text)
    compared, missing = 0, []
    numbers = {f"{r['schema']}.{r['name']}": r["oid"] for r in facts["relations"]}
    for table, selected in facts["tables"].items():
        oid = numbers.get(table)
        for row in selected["rows"]:
            for column, cell in zip(selected["columns"], row, strict=True):
                if cell is not None and (oid, column) in sent and column not in NEEDS_CATALOG:
                    compared += 1
                    if cell not in sent[oid, column]:
                        missing.append((table, column, cell[:80]))
    assert compared > 10
    assert missing == []
