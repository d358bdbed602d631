#!/usr/bin/env python3
"""test_site.py - tools/make_site.py finds what is missing in a site, and makes links and anchors.

A method's name is the sentence that is true when it passes.
"""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import make_site  # found by the path above


class Checking(unittest.TestCase):
    def faults(self, **pages):
        with tempfile.TemporaryDirectory(prefix="site-") as folder:
            for name, text in pages.items():
                pathlib.Path(folder, f"{name}.html").write_text(text, encoding="utf-8")
            return make_site.faults_of(pathlib.Path(folder))

    def test_a_whole_site_has_no_faults(self):
        self.assertEqual(self.faults(a='<h2 id="x"></h2><a href="b.html#y">b</a> <a href="#x">x</a>',
                                     b='<h2 id="y"></h2><a href="https://example.org/none">out</a>'),
                         ([], 2))

    def test_a_page_that_is_not_there_is_found(self):
        self.assertEqual(self.faults(a='<a href="b.html">b</a>'), (["a.html: b.html is not there"], 1))

    def test_an_image_that_is_not_there_is_found(self):
        self.assertEqual(self.faults(a='<img src="b.png">'), (["a.html: b.png is not there"], 1))

    def test_an_anchor_that_is_not_there_is_found(self):
        self.assertEqual(self.faults(a='<a href="b.html#z">b</a><a href="#z">here</a>', b="<p></p>")[0],
                         ["a.html: b.html#z has no such heading", "a.html: #z has no such heading"])


class Linking(unittest.TestCase):
    def setUp(self):
        self.linker = make_site.Linker({"README.md", "docs/README.md", "docs/guides/error.md",
                                        "docs/man/vramwise-doctor.1.scd"})

    def link(self, address, words="words"):
        return self.linker.links("docs/guides/error.md", f'<a href="{address}">{words}</a>')

    def test_a_page_becomes_its_place_in_the_site(self):
        self.assertEqual(self.link("../README.md#guides"), '<a href="../index.html#guides">words</a>')
        self.assertEqual(self.link("../../README.md"), '<a href="../../index.html">words</a>')
        self.assertEqual(self.link(".."), '<a href="../index.html">words</a>')
        self.assertEqual(self.link("../man/vramwise-doctor.1.scd"),
                         '<a href="../man/vramwise-doctor.1.html">words</a>')

    def test_a_file_of_docs_is_taken_along(self):
        self.assertIn('href="../fleet/prometheus/alerts.yml"', self.link("../fleet/prometheus/alerts.yml"))
        self.assertEqual(self.linker.assets, {"docs/fleet/prometheus/alerts.yml"})

    def test_another_file_of_the_tree_becomes_code(self):
        self.assertEqual(self.link("../../Makefile", "<code>Makefile</code>"),
                         '<code title="Makefile in the source">Makefile</code>')
        self.assertEqual(self.linker.faults, [])

    def test_a_file_that_is_not_there_is_a_fault(self):
        self.link("nowhere.md")
        self.linker.links("docs/guides/error.md", '<img src="nowhere.png" alt="">')
        self.assertEqual(self.linker.faults, ["docs/guides/error.md: nowhere.md is not there",
                                              "docs/guides/error.md: nowhere.png is not there"])

    def test_a_link_out_of_the_tree_stays(self):
        self.assertEqual(self.link("https://example.org/a.md"), '<a href="https://example.org/a.md">words</a>')

    def test_headings_get_the_anchors_of_github(self):
        self.assertEqual(make_site.with_anchors("<h2>The <code>page</code>, twice</h2><h2>The page twice</h2>"),
                         '<h2 id="the-page-twice">The <code>page</code>, twice</h2>'
                         '<h2 id="the-page-twice-1">The page twice</h2>')


if __name__ == "__main__":
    unittest.main()
