"""Options that change a key: KEY=VALUE."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.cli.failures import WrongInput


def settings_of(
    given: Sequence[str], option: str = "--set", form: str = "section.key=value"
) -> list[tuple[str, str]]:
    """Return the keys and values of an option that may be repeated."""
    pairs: list[tuple[str, str]] = []
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise WrongInput(f"{option} {text}: write it as {form}")
        pairs.append((key, value))
    return pairs
