"""Writes Python source that reads one well-formed message: the steps of a plan, unrolled.

Two flavours of the same code: ``leaves`` adds (place, start, end, value) for each leaf to a list,
``fields`` fills a dict of values. Either returns False as soon as anything is out of the ordinary; the
annotator then reads the message from its start and says what is wrong. So the generated code needs no
findings, and no case in which it would have to guess.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from dissector.groups import (
    MAX_ELEMENTS,
    AbsentStep,
    ChoiceStep,
    PartStep,
    RepeatStep,
    WhenStep,
)
from dissector.plan import Plan
from dissector.spec import Field
from dissector.steps import (
    ENVELOPES,
    ArrayStep,
    BytesStep,
    FieldStep,
    NumberStep,
    Step,
    StringStep,
)

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}

Names = dict[str, str]
"""Of one scope: field or choice name -> the variable that holds its value."""


def compile_plan(plan: Plan, flavour: str, nest: Callable[..., bool]) -> Callable[..., bool]:
    """The reader of `plan`'s message: ``read(data, start, end, sink, names) -> bool``.

    flavour: ``leaves`` (sink: a list) or ``fields`` (sink: a dict). nest: reads a message of
    an inner layer, ``nest(layer, data, start, end, sink, names)``; `names` collects message names.
    """
    writer = _Writer(flavour, plan)
    source = writer.source()
    space: dict[str, Any] = {**writer.constants, "nest": nest}
    exec(compile(source, f"<decoder of {plan.place.name}>", "exec"), space)
    read: Callable[..., bool] = space["read"]
    read.__doc__ = source
    return read


class _Writer:
    """Collects lines; `constants` are the objects that the lines name."""

    def __init__(self, flavour: str, plan: Plan) -> None:
        self.leaves = flavour == "leaves"
        self.plan = plan
        self.lines: list[str] = []
        self.depth = 0
        self.constants: dict[str, Any] = {}
        self.count = 0
        self.sinks = ["sink"]
        self.ready: list[str] = []
        self.shift = 0

    def source(self) -> str:
        """The text of the function ``read``."""
        self.put("def read(data, p, end, sink, names):")
        self.depth += 1
        self.put(f"names.append({self.plan.place.name!r})")
        if self.plan.code:
            self.put("return False")
        self.steps(self.plan.steps, {})
        self.settle()
        self.put("return p == end")
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        """Add a line that neither moves `p` nor branches to a place where leaves are made."""
        self.lines.append("    " * self.depth + text)

    def put(self, text: str) -> None:
        """Add a line; leaves that wait are written first, all in one statement."""
        if self.ready:
            ready, self.ready = self.ready, []
            self.line(f"sink += ({', '.join(ready)},)")
        self.line(text)

    def at(self, offset: int = 0) -> str:
        """The position `offset` bytes after the place of reading, which runs ahead of `p`."""
        offset += self.shift
        return f"p + {offset}" if offset else "p"

    def settle(self) -> None:
        """Move `p` to the place of reading."""
        if self.shift:
            self.put(f"p += {self.shift}")
            self.shift = 0

    def move(self, to: str) -> None:
        """Go on reading at `to`."""
        self.put(f"p = {to}")
        self.shift = 0

    def temp(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, value: Any) -> str:
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def fail_if(self, condition: str) -> None:
        self.line(f"if {condition}:")
        self.line("    return False")

    def leaf(self, step: Step, start: str, end: str, value: str) -> None:
        """One leaf of a field."""
        if self.leaves:
            self.ready.append(f"({self.constant(step.place)}, {start}, {end}, {value})")
        else:
            self.put(f"{self.sinks[-1]}[{step.place.name!r}] = {value}")

    def steps(self, steps: tuple[Step, ...], names: Names) -> None:
        """Code for sibling steps; neighbours of fixed width share one unpacking."""
        at = 0
        steps = tuple(self.flat(steps))
        while at < len(steps):
            step = steps[at]
            if isinstance(step, NumberStep):
                stop = at
                run: list[NumberStep] = []
                while stop < len(steps) and isinstance(each := steps[stop], NumberStep):
                    run.append(each)
                    stop += 1
                self.numbers(run, names)
                at = stop
                continue
            if isinstance(step, StringStep):
                self.string(step)
            elif isinstance(step, BytesStep):
                self.bytes(step, names)
            elif isinstance(step, ArrayStep):
                self.array(step, names)
            elif isinstance(step, PartStep):
                self.part(step)
            elif isinstance(step, RepeatStep):
                self.repeat(step, names)
            elif isinstance(step, ChoiceStep):
                self.choice(step, names)
            elif isinstance(step, WhenStep):
                self.when(step, names)
            at += 1

    def flat(self, steps: tuple[Step, ...]) -> Iterator[Step]:
        """`steps` without those that read nothing, and for leaves with parts opened up."""
        for step in steps:
            if self.leaves and isinstance(step, PartStep):
                yield from self.flat(step.steps)
            elif not isinstance(step, AbsentStep):
                yield step

    def numbers(self, run: list[NumberStep], names: Names) -> None:
        codes, variables = "", []
        for step in run:
            code = f"{step.width}s" if step.raw else _CODES[step.width]
            codes += code.lower() if step.signed else code
            variables.append(self.temp())
        packed = struct.Struct(">" + codes)
        self.fail_if(f"{self.at(packed.size)} > end")
        unpack = self.constant(packed.unpack_from)
        self.line(f"{', '.join(variables)}, = {unpack}(data, {self.at()})")
        for step, variable in zip(run, variables, strict=True):
            if step.keep:
                names[step.field.name] = variable
            self.check(step, variable)
            self.leaf(step, self.at(), self.at(step.width), variable)
            self.shift += step.width

    def check(self, step: FieldStep, variable: str) -> None:
        """Leave when the annotator would have something to say about the value."""
        field = step.field
        if step.check is None:
            return
        if field.includes_self and self.plan.message.layer in ENVELOPES:
            self.fail_if(f"{variable} < {field.kind.width} or {self.at()} + {variable} != end")
            if field.constant is not None:
                self.fail_if(self.differs(field, variable))
        elif field.constant is not None:
            self.fail_if(self.differs(field, variable))
        elif field.flags:
            mask = 0
            for bit in field.flags:
                mask |= bit
            self.fail_if(f"{variable} & {~mask}")
        elif field.kind.show == "timestamp":
            self.fail_if(f"{variable} == 0")
        elif field.values:
            char = field.kind.show == "char"
            known = {ord(str(k)) if char else k for k in field.values}
            self.fail_if(f"{variable} not in {self.constant(known)}")

    @staticmethod
    def differs(field: Field, variable: str) -> str:
        """The condition that a constant's value is another."""
        if isinstance(field.constant, str):
            return f"{variable} != {ord(field.constant)}"
        also = "".join(f" and {variable} != {other}" for other in field.also)
        return f"{variable} != {field.constant}{also}"

    def string(self, step: StringStep) -> None:
        stop = self.temp()
        self.line(f"{stop} = data.find(0, {self.at()}, end)")
        self.fail_if(f"{stop} < 0")
        self.leaf(step, self.at(), f"{stop} + 1", f"data[{self.at()}:{stop}]")
        self.move(f"{stop} + 1")

    def bytes(self, step: BytesStep, names: Names) -> None:
        stop = "end"
        size_field = step.size_field
        depth = self.depth
        if size_field is not None:
            size = names[size_field.name]
            if size_field.includes_self:
                size = f"({size} - {size_field.kind.width})"
            if step.null:
                self.settle()
                self.put(f"if {size} != -1:")
                self.depth += 1
            stop = self.temp()
            self.line(f"{stop} = {self.at()} + {size}")
            self.fail_if(f"not {self.at()} <= {stop} <= end")
        if step.layer:
            self.settle()
            target = self.sinks[-1]
            if not self.leaves:
                target = self.temp()
                self.put(f"{target} = {self.sinks[-1]}[{step.place.name!r}] = {{}}")
            self.put(f"if not nest({step.layer!r}, data, p, {stop}, {target}, names):")
            self.put("    return False")
        else:
            if step.field.sizes:
                fewest, most = step.field.sizes
                self.fail_if(f"not {fewest} <= {stop} - ({self.at()}) <= {most}")
            self.leaf(step, self.at(), stop, f"data[{self.at()}:{stop}]")
        self.move(stop)
        if self.depth > depth:
            self.depth = depth
            if not self.leaves:
                self.put("else:")
                self.put(f"    {self.sinks[-1]}[{step.place.name!r}] = None")

    def array(self, step: ArrayStep, names: Names) -> None:
        count, width = names[step.count], step.field.kind.width
        code = _CODES[width].lower() if step.field.kind.signed else _CODES[width]
        stop, unpack = self.temp(), self.constant(struct.unpack_from)
        self.line(f"{stop} = {self.at()} + {count} * {width}")
        self.fail_if(f"{count} < 0 or {stop} > end")
        value = f"{unpack}(f'>{{{count}}}{code}', data, {self.at()})"
        self.leaf(step, self.at(), stop, value)
        self.move(stop)

    def part(self, step: PartStep) -> None:
        if not self.leaves:
            sink = self.temp()
            self.put(f"{sink} = {self.sinks[-1]}[{step.place.name!r}] = {{}}")
            self.sinks.append(sink)
        self.steps(step.steps, {})
        if not self.leaves:
            self.sinks.pop()

    def repeat(self, step: RepeatStep, names: Names) -> None:
        self.settle()
        rows = self.temp()
        if not self.leaves:
            self.put(f"{rows} = {self.sinks[-1]}[{step.repeat.name!r}] = []")
        number = self.temp()
        depth = self.depth
        if step.repeat.count:
            count = names[step.repeat.count]
            least = sum(s.min_size for s in step.steps)
            self.fail_if(f"not 0 <= {count} <= {MAX_ELEMENTS} or {count} * {least} > end - p")
            self.put(f"for {number} in range({count}):")
            self.depth += 1
        else:
            self.put(f"for {number} in range({MAX_ELEMENTS + 1}):")
            self.depth += 1
            self.stop_repeat(step)
            self.fail_if(f"{number} == {MAX_ELEMENTS}")
        if not self.leaves:
            element = self.temp()
            self.put(f"{element} = {{}}")
            self.put(f"{rows}.append({element})")
            self.sinks.append(element)
        self.steps(step.steps, {})
        self.settle()
        self.put("pass")
        if not self.leaves:
            self.sinks.pop()
        self.depth = depth

    def stop_repeat(self, step: RepeatStep) -> None:
        """End of a run without a count: a zero byte, or the end of the message."""
        if step.repeat.until_zero:
            self.fail_if("p >= end")
            self.put("if data[p] == 0:")
            if self.leaves:
                self.put(f"    sink.append(({self.constant(step.terminator)}, p, p + 1, 0))")
            self.put("    p += 1")
        else:
            self.put("if p >= end:")
        self.put("    break")

    def choice(self, step: ChoiceStep, names: Names) -> None:
        self.settle()
        chosen = self.temp()
        names[step.choice.name] = chosen
        if step.choice.required:
            self.fail_if("p >= end")
            self.put(f"{chosen} = data[p]")
        else:
            self.put(f"{chosen} = data[p] if p < end else -1")
        word = "if"
        for byte, option in step.letters.items():
            self.put(f"{word} {chosen} == {byte}:")
            self.depth += 1
            self.leaf(option, "p", "p + 1", chosen)
            self.put("p += 1")
            self.depth -= 1
            word = "elif"
        self.put("else:")
        self.put("    return False" if step.choice.required else f"    {chosen} = -1")

    def when(self, step: WhenStep, names: Names) -> None:
        letters = sorted(step.letters)
        chosen = names[step.choice]
        self.settle()
        self.put("if " + " or ".join(f"{chosen} == {byte}" for byte in letters) + ":")
        self.depth += 1
        self.steps(step.steps, dict(names))
        self.settle()
        self.put("pass")
        self.depth -= 1
