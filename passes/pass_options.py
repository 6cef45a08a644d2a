#!/usr/bin/env python3
"""pass_options.py RECORDS.json PassOptions.inc: writes the second, which says of Passes.td, as llvm-tblgen
--dump-json has it, which passes have options, NANO_PASS(class, member of PassOptions), and which of
these nanoc compile has too, NANO_OPTION(member of PassOptions, member, "--flag", "VALUE", "help")."""

import json
import sys


def text(value):
    return json.dumps(value, ensure_ascii=False)


def member(name):
    return name[0].lower() + name[1:]


def sentence(said):
    """With a capital, but for a target's name."""
    return said if said.split(" ")[0].endswith(":") else said[0].upper() + said[1:]


def lines(records):
    passes = [records[name] for name in records["!instanceof"]["PassBase"]]
    options = {each["!name"]: [records[o["def"]] for o in each["options"]] for each in passes}
    yield "#ifdef NANO_PASS"
    for name in sorted(name for name in options if options[name]):
        yield f"NANO_PASS({name}, {member(name)})"
    yield "#undef NANO_PASS"
    yield "#endif"
    yield "#ifdef NANO_OPTION"
    flags = [
        (each["flag"], name, each)
        for name in options
        for each in options[name]
        if "NanocOption" in each["!superclasses"]
    ]
    for flag, name, each in sorted(flags, key=lambda item: item[0]):
        words = text(flag), text(each["value"]), text(sentence(each["description"]))
        yield f"NANO_OPTION({member(name)}, {each['cppName']}, {', '.join(words)})"
    yield "#undef NANO_OPTION"
    yield "#endif"


def main(path, output):
    with open(path, encoding="utf-8") as file:
        records = json.load(file)
    made = ["// Made by the build from passes/Passes.td.", *lines(records)]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(made) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
