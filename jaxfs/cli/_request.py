"""The checks of a `Request`, and the estimator that it describes."""

import ast
import dataclasses
import typing
from typing import Any

from jaxfs._checks import listed, variant
from jaxfs.cli._options import Request
from jaxfs.cli.tables._columns import Refusal, quote, suggest
from jaxfs.estimators import FDR, METHODS, AutoSelector, Method
from jaxfs.estimators._base import RULES

#: Names of the types of options in error messages.
_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    tuple: "several of these, separated by commas",
    type(None): "none",
}


def find_method(name: str) -> Method:
    """Return a method by its name, in upper or lower case."""
    method = METHODS.get(name.strip().lower())
    if method is None:
        known = ", ".join(METHODS)
        raise Refusal(f"method must be one of {known}; got {quote(name)}{suggest(name, METHODS)}")
    return method


def find_rule(request: Request) -> int | float | str | FDR:
    """Return the number of features, or the rule for it: `-k` with `--fdr`, `--permutations`."""
    word = str(request.k).strip().lower()
    if request.fdr is not None:
        if word not in ("auto", "fdr"):
            raise Refusal(f"--fdr decides how many features are selected; leave out -k {word}")
        if not 0 < request.fdr < 1:
            raise Refusal(f"--fdr must be in (0, 1), got {request.fdr:g}")
        return FDR(request.fdr, request.permutations, request.seed)
    if word == "fdr":
        return FDR(n_permutations=request.permutations, random_state=request.seed)
    value = word if word in RULES else _literal(word)
    if value in RULES or (type(value) is int and value > 0):
        return value
    if type(value) is float and 0 < value <= 1:
        return value
    rules = f"{', '.join(RULES[:-1])} or {RULES[-1]}"
    wrong = f"-k must be a whole number, a fraction in (0, 1], {rules}, got {quote(request.k)}"
    raise Refusal(wrong)


def check_request(request: Request, target: str | None) -> None:
    """Raise `Refusal`, before the table is read, for a request that is invalid for every table."""
    method = find_method(request.method)
    make_estimator(request)
    if method.supervised and target is None:
        raise Refusal(f"{method.name} is supervised: name the target column with --target")


def check_blocks(request: Request) -> None:
    """Raise `Refusal` for groups or strata that the selection of a request would not use."""
    used = ("groups", "strata") if request.permutations is not None else used_blocks(request)
    if request.groups is not None and "groups" not in used:
        needs = "--groups needs --fdr, --permutations, -k one_se or --method auto"
        raise Refusal(f"{needs}; to leave out a column, use --drop")
    if request.strata is not None and "strata" not in used:
        raise Refusal("--strata needs --fdr or --permutations; to leave out a column, use --drop")


def used_blocks(request: Request) -> tuple[str, ...]:
    """Return which of groups and strata the fit of a request uses."""
    rule = find_rule(request)
    if isinstance(rule, FDR):
        return ("groups", "strata")
    folds = rule == "one_se" or isinstance(make_estimator(request), AutoSelector)
    return ("groups",) if folds else ()


def make_estimator(request: Request) -> Any:
    """Return the estimator of a request; raise `Refusal` for unknown options and wrong types."""
    method = find_method(request.method)
    estimator = method.estimator()
    if getattr(estimator, "estimators", ()) is None and method.targets != "any":
        # Set the default estimators as a parameter, so that the user can set their options.
        estimator.set_params(estimators=estimator._members())
    options = {} if request.solver is None else {"solver": request.solver}
    options |= dict(map(_parse_option, request.options or ()))
    for name in options.keys() & estimator._variants.keys():  # a variant defines further options
        _check_type(estimator, name, options[name])
        estimator.set_params(**{name: options.pop(name)})
    given: dict[str, Any] = {"n_features_to_select": find_rule(request), "verbose": request.verbose}
    if request.dtype not in ("auto", "float32", "float64"):
        raise Refusal(f"dtype must be auto, float32 or float64, got {quote(request.dtype)}")
    if request.dtype != "auto":
        given["dtype"] = request.dtype
    known = parameters(estimator)
    for name, value in options.items():
        if name in getattr(method.estimator, "keywords", {}):
            raise Refusal(f"{quote(name)} cannot be changed: the method {method.name} sets it")
        if name not in known:
            own = sorted(set(known) - {"n_features_to_select", "verbose", "dtype"})
            has = f"it has {listed(own, 40)}{suggest(name, own)}"
            raise Refusal(f"{method.name} has no option {quote(name)}; {has}")
        _check_type(estimator, name, value)
    seeds = [name for name in known if name.rpartition("__")[2] == "random_state"]
    given |= dict.fromkeys(seeds, request.seed) | options
    try:
        return estimator.set_params(**given)
    except ValueError as error:  # a variant checks its options
        raise Refusal(str(error)) from error


def _check_type(estimator: Any, name: str, value: Any) -> None:
    """Raise `Refusal` for a value whose type is not the one that the estimator declares."""
    inside, _, own = name.rpartition("__")
    owner = estimator.get_params()[inside] if inside else estimator
    if inside in estimator._variants:
        owner = variant(owner, inside, estimator._variants[inside])
    declared = next(field.type for field in dataclasses.fields(owner) if field.name == own)
    kinds = [typing.get_origin(kind) or kind for kind in typing.get_args(declared) or (declared,)]
    if Any in kinds or type(value) in kinds or (float in kinds and type(value) is int):
        return
    words = " or ".join(word for kind, word in _TYPES.items() if kind in kinds)
    raise Refusal(f"option {quote(name)} must be {words}, got {quote(value)}")


def parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that are plain values, including those of nested estimators."""
    return {
        name: value
        for name, value in estimator.get_params().items()
        if name not in ("estimators", "model") and not hasattr(value, "get_params")
    }


def _parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise Refusal(f"an option must have the form name=value, got {quote(text)}")
    return name, _literal(value)


def _literal(text: str) -> Any:
    """Return the value of a Python literal, true, false or none, and other text unchanged."""
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
