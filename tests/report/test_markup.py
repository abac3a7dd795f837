"""Data in a page cannot end the script that it stands in."""

from __future__ import annotations

import json

from hearsay.report.html import json_for_script


def test_json_in_a_page_has_no_markup():
    names = {"</script><!-- ": "<script>&"}
    text = json_for_script(names)
    assert not set("<>&") & set(text)
    assert json.loads(text) == names
