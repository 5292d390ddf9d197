#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""varlink-python.py SOCKET - ask tsnatd by way of python-varlink, a library that is not ours, which
parses the interface's definition.

Prints a TAP line for each thing that is checked; exits 1 when one is not as it should be.
"""

import sys

import varlink
from varlink import scanner

INTERFACE = "io.tsnatd.Gateway"
failed = False


def check(text, good, *why):
    global failed
    failed = failed or not good
    print("%s - python-varlink: %s" % ("ok" if good else "not ok", text))
    if not good:
        print("#   ", *why)


def is_of_type(interface, type_, value):
    """Whether a value is of the defined type, by the library's own parse of the definition."""
    if isinstance(type_, scanner._Maybe):
        return value is None or is_of_type(interface, type_.element_type, value)
    if isinstance(type_, scanner._Array):
        return isinstance(value, list) and all(
            is_of_type(interface, type_.element_type, v) for v in value
        )
    if isinstance(type_, scanner._CustomType):
        return is_of_type(interface, interface.members[type_.name].type, value)
    if isinstance(type_, scanner._Enum):
        return value in type_.fields
    if isinstance(type_, scanner._Struct):
        return (
            isinstance(value, dict)
            and set(value) <= set(type_.fields)
            and all(is_of_type(interface, t, value.get(name)) for name, t in type_.fields.items())
        )
    return type(value) is type(type_)  # bool(), int(), str(); a bool is an int, and should not be


def as_defined(handler, method, value):
    interface = handler._interface
    return is_of_type(interface, interface.get_method(method).out_type, value)


def check_errors(gateway):
    for text, call, error in (
        ("a listing without more", lambda: gateway.ListConnections(),
         "org.varlink.service.ExpectedMore"),
        ("an interval of 0", lambda: list(gateway.Monitor(interval_s=0, _more=True)),
         "org.varlink.service.InvalidParameter"),
    ):
        try:
            answer = call()
            check("%s: %s" % (text, error), False, answer)
        except varlink.VarlinkError as e:
            check("%s: %s" % (text, error), e.error() == error, e)


def check_answers(gateway):
    for method in "GetStatus", "GetStatistics", "GetRules", "Reload":
        answer = getattr(gateway, method)()
        check("%s answers as defined" % method, as_defined(gateway, method, answer), answer)


def check_listings(gateway):
    rows = []
    for answer in gateway.ListConnections(closed=True, _more=True):
        check(
            "ListConnections answers as defined", as_defined(gateway, "ListConnections", answer),
            answer
        )
        rows += answer["connections"]
    states = [r["state"] for r in rows]
    check("connections, open and closed", "established" in states and "closed" in states, states)
    rows = []
    for answer in gateway.ListConnections(_more=True):
        rows += answer["connections"]
    check("connections, those that are open", [r["state"] for r in rows] == ["established"], rows)
    rows = []
    for answer in gateway.ListDestinations(_more=True):
        check(
            "ListDestinations answers as defined", as_defined(gateway, "ListDestinations", answer),
            answer
        )
        rows += answer["destinations"]
    check(
        "destinations", [(r["address"], r["port"]) for r in rows] == [("198.51.100.2", 7000)], rows
    )


def check_monitor(client):
    with client.open(INTERFACE) as gateway:
        answers = []
        for answer in gateway.Monitor(interval_s=1, _more=True):
            answers.append(answer)
            if len(answers) == 2:
                break
        check(
            "Monitor answers as defined, twice",
            all(as_defined(gateway, "Monitor", a) for a in answers), answers
        )


def main():
    with varlink.Client.new_with_address("unix:" + sys.argv[1]) as client:
        interfaces = client.get_interfaces()
        check(
            "GetInfo", client.info["product"] == "tsnatd" and INTERFACE in interfaces, client.info
        )
        with client.open(INTERFACE) as gateway:
            check_answers(gateway)
            check_listings(gateway)
            check_errors(gateway)
        check_monitor(client)
    sys.exit(failed)


main()
