"""What the user asked for, in the words of the command line, and the estimator that it means."""

import ast
import contextlib
import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxfs._checks import variant
from jaxfs.cli.tables._columns import Refusal, listed, quote
from jaxfs.estimators._catalogue import METHODS, Method

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    type(None): "none",
}


class Plan(NamedTuple):
    """What the user asked for, in the words of the command line."""

    method: str
    k: str = "auto"
    seed: int = 0
    dtype: str = "auto"
    solver: str | None = None
    options: tuple[str, ...] = ()
    standardize: bool = False
    verbose: bool = False


def find_method(name: str) -> Method:
    """A method by its name, in whatever case."""
    method = METHODS.get(name.strip().lower())
    if method is None:
        raise Refusal(f"method must be one of {', '.join(METHODS)}; got {quote(name)}")
    return method


def parse_number(text: str) -> int | float | str:
    """`20`, `0.1` or `auto`."""
    if text.strip().lower() == "auto":
        return "auto"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            value = kind(text)
            if value > 0 and (kind is int or value <= 1):
                return value
            break
    raise Refusal(f"-k must be a whole number, a fraction in (0, 1] or auto, got {quote(text)}")


def make_estimator(plan: Plan) -> Any:
    """The estimator of a plan. Unknown or unsuitable options are refused by name."""
    method = find_method(plan.method)
    estimator = method.estimator()
    _spell_out_members(estimator)
    options = dict(map(_parse_option, plan.options))
    for name in options.keys() & estimator._variants.keys():  # they decide which options there are
        _check_type(estimator, name, options[name])
        estimator.set_params(**{name: options.pop(name)})
    known = parameters(estimator)  # the members of a combination are no options
    given: dict[str, Any] = {"n_features_to_select": parse_number(plan.k), "verbose": plan.verbose}
    if plan.dtype != "auto":
        if plan.dtype not in ("float32", "float64"):
            raise Refusal(f"dtype must be auto, float32 or float64, got {quote(plan.dtype)}")
        given["dtype"] = plan.dtype
    if plan.solver is not None:
        given["solver"] = plan.solver
    seeds = [name for name in known if name.rpartition("__")[2] == "random_state"]
    given |= dict.fromkeys(seeds, plan.seed)
    for name in options.keys() & getattr(method.estimator, "keywords", {}).keys():
        raise Refusal(f"{quote(name)} is no option of {method.name}: the method's name says it")
    given |= options
    own = sorted(set(known) - {"n_features_to_select", "verbose", "dtype"})
    for name in given:
        if name not in known:
            raise Refusal(f"{method.name} has no option {quote(name)}; it has {listed(own, 40)}")
    for name, value in options.items():
        _check_type(estimator, name, value)
    try:
        return estimator.set_params(**given)
    except ValueError as error:  # the record of a variant checks its options
        raise Refusal(str(error)) from error


def _check_type(estimator: Any, name: str, value: Any) -> None:
    """Refuse a value of another type than the estimator declares."""
    inside, _, own = name.rpartition("__")
    owner = estimator.get_params()[inside] if inside else estimator
    if inside in estimator._variants:
        owner = variant(owner, inside, estimator._variants[inside])
    declared = next(field.type for field in dataclasses.fields(owner) if field.name == own)
    kinds = typing.get_args(declared) or (declared,)
    if Any in kinds or type(value) in kinds or (float in kinds and type(value) is int):
        return
    words = " or ".join(word for kind, word in _KINDS.items() if kind in kinds)
    raise Refusal(f"option {quote(name)} must be {words}, got {quote(value)}")


def _spell_out_members(estimator: Any) -> None:
    """Make the default members of a combination its parameters, so that options reach them."""
    if "estimators" in estimator.get_params(deep=False) and estimator.estimators is None:
        estimator.set_params(estimators=estimator._members())


def parameters(estimator: Any) -> dict[str, Any]:
    """The parameters that are values, those of estimators within an estimator included."""
    found = estimator.get_params()
    inside = {name for name, value in found.items() if hasattr(value, "get_params")}
    return {n: v for n, v in found.items() if n not in inside and n != "estimators"}


def _parse_option(text: str) -> tuple[str, Any]:
    """`name=value`: the value as Python writes numbers, `True`, `None`, or else a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise Refusal(f"an option must read name=value, got {quote(text)}")
    words: Mapping[str, Any] = {"true": True, "false": False, "none": None}
    if value.strip().lower() in words:
        return name.strip(), words[value.strip().lower()]
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return name.strip(), value.strip()
