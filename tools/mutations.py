"""Promises broken on purpose: each row breaks one, and names the check that must turn red. `make mutate` runs them all.

    python tools/mutations.py            every row, each on a copy of the tree, two at a time
    python tools/mutations.py NAME …     some of them
    python tools/mutations.py --list

A row is caught when its check fails as a failed test or a failed build (an error on the way to the check is no catch, one at its end is), and
says what `says` expects. First each check has to be green without a mutation. A row whose `old` no longer stands in its file
is red too: mend the row. Exit status 0 only when all are caught; 1 names those that were not.
The rows of QUICK need no build and no browser; `make test` runs them too (tests/test_mutations.py).
"""
import re
import sys
import time
import typing

from trials import BUILD, SECONDS, Place, chosen, each, edit  # noqa: F401  Place, edit: for the tests


class Mutation(typing.NamedTuple):
    """`new` in the place of the first `old` of `file`, a text or a pattern (no row quotes prose); a list of such triples where one place is not enough."""

    name: str
    edits: list | tuple
    check: str        # a pytest node, or BUILD
    says: str = ""    # regular expression: what the red has to say


def M(name, file, old, new, check, says=""):
    return Mutation(name, [(file, old, new)], check, says)


def both(name, page, old, new, check, says="", zh=None):
    """The same edit of the English and of the Chinese page; zh: (old, new) where the Chinese text differs."""
    return Mutation(name, [(f"docs/en/{page}", old, new), (f"docs/zh/{page}", *(zh or (old, new)))], check, says)


LESSON, MEMORY = "docs/en/lesson.md", "examples/flash_vs_naive_memory.py"
RESULTS = "examples/results/nvidia-h200"
PARITY = "tests/test_parity.py::test_the_same"
FINDING = "tests/test_site.py::test_the_built_site_has_no_finding"   # tools/check_site.py, on the built site


def rejects(name, old, new, wrong=None, file=None):
    """A grader that no longer tries one of its properties: something that it alone rejects, or the wrong solution of that name, passes. file: where exercises share it."""
    node = f"test_a_wrong_solution_fails[{name}-{wrong}-]" if wrong else f"test_every_property_rejects_something[{name}]"
    return M(f"grader-{name}-tries-less" + (f"-{wrong}" if wrong else ""), f"examples/exercises/{file or name + '/properties'}.py", old, new, f"tests/test_exercises.py::{node}", "passes the grader" if wrong else "AssertionError")


def passed_over(name, wrong, attempt, file=None):
    """A property that tries nothing: the wrong solution that it alone rejects passes."""
    return rejects(name, f"def {attempt}(solve, random):\n", f"def {attempt}(solve, random):\n    return\n", wrong, file)


MUTATIONS = [
    # A lab reports nothing that it did not see
    M("counter-is-not-proved", "examples/kit/proof.py", "blind_counter() or ", "", "tests/test_proof.py::test_a_counter_that_does_not_move_by_what_was_allocated_is_one_line"),
    M("clock-is-not-proved", "examples/kit/proof.py", "wrong_clock() or ", "", "tests/test_proof.py::test_a_clock_in_another_unit_is_one_line"),
    M("profiler-is-not-proved", "examples/kit/proof.py", " or blind_profiler()", "", "tests/test_proof.py::test_a_profiler_that_sees_nothing_or_fails_is_one_line"),
    M("instruments-are-not-asked", "examples/kit/card.py", "return unproven(device) if ok", "return None if ok", "tests/test_run.py::test_an_instrument_that_shows_nothing_is_one_line_and_nothing_is_written"),
    M("company-is-not-kept", "examples/run.py", 'worse(result["run"]["card"], company())', '{**company(), "idle": True}', "tests/test_run.py::test_a_card_that_others_use_is_said_and_kept"),
    M("oom-without-an-exception", "examples/run.py", "        if not said:\n", "        if False:\n", "tests/test_run.py::test_a_row_that_no_lab_can_have_seen_fails_the_lab"),
    M("another-card-replaces-one", "examples/run.py", "<= 0.03 * max", "<= 3 * max", "tests/test_run.py::test_another_card_of_the_same_name_replaces_nothing", "GiB|assert"),
    M("commit-of-a-foreign-repository", "examples/run.py", ' and git("ls-tree", "HEAD", "--", path.name)', "", "tests/test_run.py::test_a_repository_that_only_surrounds_the_program_gives_no_commit"),
    M("skipped-labs-fail-the-rest", "examples/run.py", "3 if len(left) == len(asked) else 0", "3", "tests/test_run.py::test_what_cannot_run_here_fails_nothing_unless_nothing_can"),
    M("pipe-that-is-cut-is-a-traceback", "examples/kit/card.py", "    except BrokenPipeError:\n        os", "    except ZeroDivisionError:\n        os", "tests/test_proof.py::test_a_lab_whose_reader_is_gone_says_nothing"),
    M("peak-of-nothing-is-a-result", "examples/results/schema.json", ', "exclusiveMinimum": 0}', "}", "tests/test_run.py::test_what_is_incomplete_or_foreign_is_refused"),
    M("mask-without-a-corner", "examples/kit/inputs.py", "    if same_S and S_kv != S:", "    if False:", "tests/test_proof.py::test_a_mask_without_a_corner_is_refused"),
    M("every-state-is-kept", "examples/online_softmax.py", "    for m, l, o in online_steps(q, K, V, block):", "    for m, l, o in list(online_steps(q, K, V, block)):", "tests/test_online_softmax.py::test_online_attention_keeps_three_things_however_long_the_row_is"),
    M("check-by-assert", "examples/rescale_rules.py", "                if not error < 1e-12:\n                    raise AssertionError(", "                assert error < 1e-12, (", "tests/test_proof.py::test_nothing_rests_on_a_bare_assert"),
    M("pull-request-that-is-forbidden-stops-all", "tools/propose.sh", "fi || echo", "fi; true || echo", "tests/test_workflows.py::test_a_repository_that_forbids_pull_requests_is_published_all_the_same"),
    M("schema-stops-a-take", "tools/results.py", 'if path.name == "schema.json":', "if False:", "tests/test_workflows.py::test_the_results_of_another_clone_can_be_taken_as_they_lie"),
    M("another-card-is-taken-for-the-same", "tools/results.py", "if other := run.another_card", "if other := None and run.another_card", "tests/test_workflows.py::test_a_card_of_the_same_name_with_other_memory_replaces_nothing", "DID NOT RAISE"),
    M("contributed-file-is-not-named", "docs/hooks/core/placeholders.py", "raise PageError(f\"{other['url']}: {error} ", "raise PageError(f\"{error} ", "tests/test_placeholders.py::test_a_damaged_row_of_a_contributed_card_is_shown_or_its_file_named"),
    M("busy-card-is-not-said", "docs/hooks/core/measured.py", "{stale}{busy}", "{stale}", "tests/test_placeholders.py::test_a_card_that_was_not_idle_is_said_where_its_numbers_stand"),

    # Two languages, one page
    M("zh-heading-has-another-id", "docs/zh/decode.md", "{ #intensity }", "{ #intensities }", f"{PARITY}[headings-decode.md]", r"headings \d+ differ"),
    M("zh-shows-other-code", "docs/zh/vllm.md", "row = 16, [6, 3, 1]", "row = 16, [6, 3, 2]", f"{PARITY}[code-vllm.md]", r"code \d+ differ"),
    M("zh-links-elsewhere", "docs/zh/index.md", "](lesson.md#where-it-helps)", "](lesson.md#principle)", f"{PARITY}[links-index.md]", r"links \d+ differ"),
    M("zh-shows-another-row", "docs/zh/index.md", "S=4096", "S=8192", f"{PARITY}[placeholders-index.md]", r"placeholders \d+ differ"),
    M("zh-table-lacks-a-row", "docs/zh/vllm.md", re.compile(r"\| 12\.0 \|.*\n"), "", f"{PARITY}[tables-vllm.md]", r"tables"),
    M("zh-formula-has-another-sign", "docs/zh/lesson.md", r"\ell_{\text{new}} &= \alpha\, \ell + ", r"\ell_{\text{new}} &= \alpha\, \ell - ", f"{PARITY}[formulas-lesson.md]", r"formulas \d+ differ"),
    M("zh-navigation-lacks-a-page", "mkdocs.zh.yml", re.compile(r" +- [^:\n]+: glossary\.md\n"), "", "tests/test_parity.py::test_the_same_navigation", "glossary.md"),
    M("heading-without-an-id", "docs/en/glossary.md", "## Tile { #tile }", "## Tile", "tests/test_parity.py::test_headings_have_explicit_ids_and_no_formula[en-glossary.md]", "explicit id"),
    both("numbered-sections-out-of-order", "lesson.md", "## 7. ", "## 8. ", "tests/test_parity.py::test_numbered_headings_count_upwards", "lesson.md"),
    both("self-test-is-gone", "lesson.md", "## 9. ", "## ", "tests/test_parity.py::test_numbered_headings_count_upwards", "lesson.md"),

    M("zh-page-has-an-english-title", "mkdocs.zh.yml", re.compile(r"- [^:\n]+: glossary\.md"), "- Glossary: glossary.md", "tests/test_parity.py::test_the_same_navigation", "Glossary"),
    both("formula-in-a-heading", "glossary.md", "{ #tile }", "$B_c$ { #tile }", "tests/test_parity.py::test_headings_have_explicit_ids_and_no_formula[en-glossary.md]", "no formula in a heading"),
    both("section-without-text", "vllm.md", "{ #path }\n", "{ #path }\n\n## 0 { #empty }\n", "tests/test_parity.py::test_no_section_is_empty[en-vllm.md]", "nothing stands under"),
    M("bold-ends-in-punctuation", "docs/zh/index.md", "{ #for-whom }\n", "{ #for-whom }\n\n**词，**后\n", "tests/test_parity.py::test_bold_does_not_end_in_full_width_punctuation[index.md]"),

    # Code and figures of the pages
    both("fence-without-a-language", "vllm.md", "```{.python}\nblock_size", "```\nblock_size", "tests/test_fences.py::test_a_fence_names_its_language_and_a_snippet_names_its_file[docs/en/vllm.md]", "name the language"),
    both("fence-with-bare-words", "vllm.md", "```{.python}\nblock_size", "```python notest\nblock_size", "tests/test_fences.py::test_a_fence_names_its_language_and_a_snippet_names_its_file[docs/en/vllm.md]", "fences are written"),
    both("session-that-nobody-runs", "vllm.md", "```{.python}\nblock_size", "```{.pycon}\n>>> 1 + 1\n3\n```\n\n```{.python}\nblock_size", "tests/test_fences.py::test_a_fence_names_its_language_and_a_snippet_names_its_file[docs/en/vllm.md]", "pycon"),
    both("snippet-outside-a-fence", "vllm.md", "{ #path }\n", '{ #path }\n\n--8<-- "online_softmax.py:scores"\n', "tests/test_fences.py::test_a_fence_names_its_language_and_a_snippet_names_its_file[docs/en/vllm.md]", "outside a fence"),
    both("output-that-asks-to-be-copied", "decode.md", ".text .no-copy", ".text", "tests/test_fences.py::test_a_fence_names_its_language_and_a_snippet_names_its_file[docs/en/decode.md]", "not to be copied"),
    both("fence-exempt-without-a-reason", "measured.md", 'data-notest="needs an NVIDIA GPU"', 'data-notest="no"', "tests/test_fences.py::test_an_exemption_gives_its_reason[docs/en/measured.md]", "needs a reason",
         zh=('data-notest="', 'data-notest="无" data-was="')),
    both("code-of-a-page-is-wrong", "vllm.md", "assert slot(37) == 21", "assert slot(37) == 22", "docs/en/vllm.md", "AssertionError"),
    both("snippet-of-another-file-in-a-fence", "lesson.md", '--8<-- "online_softmax.py:weighted_sums"', '--8<-- "split_kv.py:merge"',
         "tests/test_fences.py::test_a_fence_names_its_language_and_a_snippet_names_its_file[docs/en/lesson.md]", "one fence shows sections of one file"),
    both("figure-of-arithmetic-retyped", "lesson.md", "240.5 GFLOP", "241.5 GFLOP", "tests/test_citations.py::test_every_figure_is_measured_computed_quoted_or_plain[en-lesson.md]", "241.5 GFLOP"),
    M("zh-number-in-myriads-retyped", "docs/zh/lesson.md", "1680 万", "1690 万", "tests/test_citations.py::test_every_figure_is_measured_computed_quoted_or_plain[zh-lesson.md]", "16.9 M"),
    both("measured-time-typed", "decode.md", "{ #decode }\n", "{ #decode }\n\n1.234 ms\n", "tests/test_citations.py::test_every_figure_is_measured_computed_quoted_or_plain[en-decode.md]", "1.234 ms"),

    both("quotation-without-its-place", "versions.md", re.compile(r"[(（]Fig\. 2[^)）]*[)）]"), "", "tests/test_citations.py::test_what_is_quoted_names_its_source_and_the_place_in_it[en-versions.md]", "needs its place"),
    M("zh-lacks-a-quotation", "docs/zh/versions.md", re.compile(r'<span data-quote="fa3-sign">(.*?)</span>'), r"\1", f"{PARITY}[marks-versions.md]", r"marks"),
    M("glossary-links-stand-in-code", "docs/hooks/core/glossary.py", '"a|button|caption|code|data|', '"a|button|caption|data|', "tests/test_glossary.py::test_the_first_use_becomes_a_link_where_it_is_prose"),

    both("columns-of-a-table-changed-places", "lesson.md", re.compile(r"\| ([^|]*) \{naive_mib\} \| ([^|]*) \{flash_mib\} \|"), r"| \2 {naive_mib} | \1 {flash_mib} |", BUILD, "stands over naive_mib"),
    M("zh-columns-changed-places", "docs/zh/lesson.md", re.compile(r"(\| [^|]* \{naive_mib\} )(\| [^|]* \{flash_mib\} )"), r"\2\1", f"{PARITY}[tables-lesson.md]", "tables"),
    M("header-names-another-program", "docs/hooks/core/placeholders.py", "            _program_in_header(cell, name)\n", "", "tests/test_placeholders.py::test_mistakes_name_themselves_and_their_line", "names flash"),
    both("curves-of-a-chart-renamed", "lesson.md", re.compile(r'naive_mib=("[^"]*") flash_mib=("[^"]*")'), r"naive_mib=\2 flash_mib=\1", BUILD, "stands over naive_mib"),

    M("a-claim-in-one-language", "docs/zh/backward.md", re.compile(r'<span data-claim="backward-more-flops-less-time">(.*?)</span>'), r"\1", "tests/test_claims.py::test_both_languages_claim_the_same_on_the_same_pages_and_each_claim_has_its_test", "backward"),
    both("interview-answer-without-its-mark", "interview.md", re.compile(r"(\n    )\*\*([^*\n]+)\*\*"), r"\1\2", "tests/test_interview.py::test_each_question_has_a_level_two_answers_and_a_proof[zh]", "two paragraphs begin with a mark"),
    both("a-claim-is-not-said", "measured.md", 'data-claim="two-clocks-agree"', 'data-was="two-clocks-agree"', "tests/test_claims.py::test_two_clocks_agree", "says nowhere"),
    both("a-claim-without-a-test", "measured.md", 'data-claim="three-answers"', 'data-claim="four-answers"', "tests/test_claims.py::test_both_languages_claim_the_same_on_the_same_pages_and_each_claim_has_its_test", "four-answers"),
    M("a-claim-without-an-id", "tests/test_claims.py", "@claim\ndef test_bytes_are_not_time", "def test_bytes_are_not_time", "tests/test_claims.py::test_both_languages_claim_the_same_on_the_same_pages_and_each_claim_has_its_test", "of a claim with an id"),
    M("a-claim-is-not-borne-out", f"{RESULTS}/flash_backward.json", re.compile(r'"speedup": \d'), '"speedup": 0', "tests/test_claims.py::test_backward_more_flops_less_time"),

    both("headline-turned-round", "index.md", re.compile(r"naive_mib(.*?)flash_mib"), r"flash_mib\1naive_mib", "tests/test_claims.py::test_headline", "from naive to flash"),

    # Examples and what they print
    M("captured-output-edited", "examples/outputs/online_softmax.txt", "0.891366", "0.891367", "tests/test_online_softmax.py::test_output_is_what_the_file_prints_alone_on_every_python_here", "0.891367"),
    M("captured-output-of-a-pitfall-edited", "examples/outputs/pitfalls-megabytes.txt", "1996.5", "1997.5", "tests/test_pitfalls.py::test_the_file_runs_alone_and_its_output_is_up_to_date[megabytes]", "make outputs"),
    M("example-needs-a-sibling", "examples/online_softmax.py", "from random import Random\n", "from random import Random\nfrom io_counter import main as other\n", "tests/test_online_softmax.py::test_only_the_standard_library_is_imported"),
    M("identity-without-decorators", "examples/kit/identity.py", '("ctx", "kind", "type_comment")', '("ctx", "kind", "type_comment", "decorator_list")', "tests/test_identity.py::test_what_is_measured_changes_it", "a decorator of the kit"),
    M("identity-without-the-kit", "examples/kit/identity.py", "            return module.find(name)\n", "            return self, name\n", "tests/test_identity.py::test_what_is_measured_changes_it", "of the kit"),
    M("identity-without-what-is-loaded-by-name", "examples/kit/identity.py", "for name, part in loaded_by_name(module, files or {}):", "for name, part in []:", "tests/test_identity.py::test_what_a_lab_loads_by_name_counts_as_far_as_it_may_call_it"),
    M("part-without-what-it-imports", "tools/bundle.py", "    if not any(map(is_guard, own)):", "    if False:", "tests/test_bundle.py::test_whatever_is_served_binds_every_name_that_it_uses"),
    M("identity-with-docstrings", "examples/kit/identity.py", "value = value[1:]", "value = value[:]", "tests/test_identity.py::test_what_is_said_does_not", "a docstring"),
    M("identity-with-names", "examples/kit/identity.py", "numbers[owner.path, name] = len(numbers)", "numbers[owner.path, name] = name", "tests/test_identity.py::test_a_private_name_does_not"),
    M("bundle-without-its-harness", "tools/bundle.py", "out += _sections(program, needed, placed)", "_sections(program, needed, placed)", "tests/test_bundle.py::test_subject_first_what_a_default_needs_before_it_and_the_harness_last"),
    M("bundle-imports-too-late", "tools/bundle.py", "                out.append(_text(*needed[key]))\n", "                pass\n", "tests/test_bundle.py::test_subject_first_what_a_default_needs_before_it_and_the_harness_last"),
    M("helper-copied", "examples/attention_error.py", "# Bits.\n", "# Bits.\n\ndef attempt(measure, *args):\n    result = None\n    try:\n        result = measure(*args)\n    except RuntimeError as error:\n        if \"out of memory\" not in str(error).lower():\n            raise\n    return result\n\n\n", "tests/test_bundle.py::test_no_run_of_six_lines_of_code_stands_in_two_files"),
    M("kit-of-one-lab", "examples/kit/table.py", "def yes_no(flag):", "def ring(flag):\n    return flag\n\n\ndef yes_no(flag):", "tests/test_bundle.py::test_the_kit_holds_what_several_files_use", "ring"),
    M("row-names-its-function", "examples/flash_vs_naive_memory.py", '"naive_kernel": once(', '"naive_kernel": naive.__name__ and once(', "tests/test_identity.py::test_no_measuring_code_reads_the_name_of_a_function"),
    M("normaliser-is-not-rescaled", "examples/online_softmax.py", "l = rescale * l + l_tile", "l = l + l_tile", "tests/test_online_softmax.py::test_equals_the_oracle"),
    M("skeleton-gives-the-answer-away", "examples/exercises/online_row/solution.py", "# end of answer", "# end", "tests/test_exercises.py::test_the_skeleton_is_the_solution_without_the_answer[online_row]"),
    M("solution-is-wrong", "examples/exercises/causal_tiled/solution.py", "-inf", "-1e9", "tests/test_exercises.py::test_the_solution_passes_as_function_module_and_dict[causal_tiled]"),

    M("minus-infinity-less-itself", "examples/online_softmax.py", "0.0 if m == -inf else exp(m - m_new)", "exp(m - m_new)", "tests/test_online_softmax.py::test_edge"),
    M("finite-minus-infinity", "examples/online_softmax.py", "m, l, o = -inf, 0.0", "m, l, o = -1e9, 0.0", "tests/test_online_softmax.py::test_edge"),
    M("no-maximum-is-subtracted", "examples/online_softmax.py", "seen = [(exp(s_j - m), v)", "seen = [(exp(s_j), v)", "tests/test_online_softmax.py::test_edge"),
    M("lengths-are-not-compared", "examples/online_softmax.py", "if len(K) != len(V):", "if False:", "tests/test_online_softmax.py::test_wrong_shapes_are_named"),
    M("columns-of-the-query", "examples/online_softmax.py", "for c in range(len(V[0]))]\n    return l, o", "for c in range(min(2, len(V[0])))]\n    return l, o", "tests/test_online_softmax.py::test_edge"),
    M("hidden-values-are-read", "examples/online_softmax.py", "for s_j, v in zip(s, V) if s_j != -inf]", "for s_j, v in zip(s, V)]", "tests/test_online_softmax.py::test_edge"),

    # Graders: each property is there because a wrong solution passes without it
    rejects("online_row", "solve.expect_flat(lambda S: ([(0.001 * j, [1.0, 2.0]) for j in range(S)],))", "pass"),
    rejects("online_blocked", "if len(powers) > S + tiles:", "if False:", "one_key_at_a_time"),
    rejects("masked_row", "mask=mask, junk=junk))", "mask=mask))", "hidden_value_read"),
    rejects("merge_parts", "solve.expect((([0.0] * d_v, -inf), ([0.0] * d_v, -inf)), ([0.0] * d_v, -inf))", "pass"),
    rejects("causal_tiled", "if Counted.products > allowed:", "if False:", "nothing_is_skipped"),
    rejects("gqa_decode", "if max(rest) > 1 or first > 1 + H // H_kv:", "if False:"),
    rejects("count_bytes", "or not all(type(x) is int for x in got)", "and False"),
    rejects("backward_row", "if max(others) > 1 or first > 2:", "if False:", "one_row_read_twice"),
    passed_over("online_blocked", "tiny_rises_are_not_rescaled", "any_difference", "common"),
    passed_over("online_blocked", "stops_at_a_negligible_tile", "weightless", "common"),
    passed_over("online_blocked", "tile_of_nan_alone_is_skipped", "not_a_number", "common"),
    passed_over("online_blocked", "base_stays_while_each_step_is_small", "many_keys"),
    passed_over("online_blocked", "nan_sought_in_the_first_entry_only", "nan_in_an_entry", "common"),
    passed_over("online_row", "a_thousand_keys_at_most", "many_keys"),
    passed_over("causal_tiled", "all_queries_taken_for_the_first", "each_query_its_own"),
    passed_over("gqa_decode", "shared_maximum_for_the_group", "each_head_its_own"),
    passed_over("backward_row", "light_keys_are_dropped", "any_difference"),
    rejects("online_blocked", "powers.append(base)", "pass", "two_exponentials_a_key_by_powers"),
    rejects("online_blocked", "if self.careless is None and text_of(args) != before:", "if False:", "query_scaled_in_place", "grader"),
    rejects("online_blocked", "if self.careless is None and self.shares:", "if False:", "the_only_row_of_v_itself", "grader"),
    rejects("online_blocked", "if grown > 1024:", "if grown > 1024 * 1024:", "keeps_a_part_for_each_tile", "grader"),
    rejects("online_row", "function(pair for pair in args[0])", "function(iter(args[0]))", "two_passes_over_a_copied_stream"),
    rejects("masked_row", ", (1e6, 1e300))", ")", "maximum_over_hidden_keys_too"),
    rejects("merge_parts", "in (1, 3, 9):", "in (1, 3):", "eight_columns_at_most"),
    rejects("causal_tiled", ", (3, 12, 1, 2), (7, 7, 3, 2), (7, 7, 2, 3))", ")", "nothing_is_skipped_where_queries_are_few"),
    rejects("count_bytes", "in (8, 9, 20):", "in (8, 9):", "decimals_of_28_digits"),
    rejects("backward_row", "if rows.order != sorted(rows.order):", "if False:", "rows_read_backwards"),
    M("one-grader-forgives-more", "examples/exercises/merge_parts/properties.py", "def case(", "def agrees(got, expected):\n    return True\n\n\ndef case(", "tests/test_exercises.py::test_there_is_one_engine", "merge_parts"),
    M("every-grader-forgives-more", "examples/exercises/grader.py", "rel_tol=1e-9, abs_tol=1e-9", "rel_tol=1, abs_tol=9", "tests/test_exercises.py::test_a_wrong_solution_fails[online_row-never_divides-]", "passes the grader"),
    M("grader-prints-a-traceback", "examples/exercises/grader.py", "except BaseException as error:\n            raise Wrong(given, shown(expected), self.explain(error)) from None", "except ZeroDivisionError as error:\n            raise Wrong(given, shown(expected), self.explain(error)) from None",
      "tests/test_exercises.py::test_what_is_not_a_solution_is_told_in_a_line"),

    # Results and their writer
    M("number-of-a-result-edited", f"{RESULTS}/flash_vs_naive_memory.json", '"naive_mib": 1904.0', '"naive_mib": 1804.0', "tests/test_flash_vs_naive_memory.py::test_measured_bytes_are_the_predicted_ones"),
    M("result-is-not-as-run-py-writes-it", f"{RESULTS}/flash_vs_naive_memory.json", "  {", "  { ", "tests/test_run.py::test_a_committed_result_says_what_it_is_and_is_as_run_py_writes_it[nvidia-h200/flash_vs_naive_memory]"),
    M("schema-asks-for-no-id", "examples/results/schema.json", '"required": ["id"]', '"required": []', "tests/test_run.py::test_a_missing_field_is_refused[source/id]"),
    M("first-schema-is-not-read", "examples/results/schema.json", '{"enum": [1, 2]}', '{"const": 2}', "tests/test_run.py::test_a_result_of_the_first_schema_is_still_read"),
    M("rows-share-a-line", "examples/run.py", '",\\n".join(f"  {said(row)}" for row in value)', '", ".join(f"  {said(row)}" for row in value)', "tests/test_run.py::test_a_result_has_every_field_and_fits_the_schema", "one row a line"),
    M("time-of-a-result-edited", f"{RESULTS}/decode_attention.json", '"ms": 0.', '"ms": 1.', "tests/test_decode_attention.py::test_measured_columns_follow_from_times"),
    M("row-without-its-kernel", f"{RESULTS}/flash_vs_naive_memory.json", '"kernel": "void pytorch_flash', '"kernel": null, "was": "void pytorch_flash', "tests/test_run.py::test_committed_results_fit_the_schema", "kernel"),
    M("schema-asks-for-no-kernel", "examples/results/schema.json", '"required": ["kernel", "status"]', '"required": ["status"]', "tests/test_run.py::test_a_missing_field_is_refused[rows/0/kernel]"),
    M("schema-asks-for-no-card", "examples/results/schema.json", '"required": ["gpu", "memory"', '"required": ["memory"', "tests/test_run.py::test_a_missing_field_is_refused[machine/gpu]"),
    M("run-writes-nan", "examples/run.py", "json.dumps(strict(value), ensure_ascii=False, allow_nan=False)", "json.dumps(value, ensure_ascii=False)", "tests/test_run.py::test_a_result_has_every_field_and_fits_the_schema", "is not JSON"),
    M("run-does-not-replace-atomically", "examples/run.py", 'with open(part, "x", encoding="utf-8", errors="replace", newline="\\n") as file:\n            file.write(text)\n        os.replace(part, path)', 'path.write_text(text, "utf-8", newline="\\n")', "tests/test_run.py::test_a_write_that_fails_leaves_the_old_file"),
    M("run-writes-at-the-end-only", "examples/run.py", "say(lab.line(row))\n            save()", "say(lab.line(row))", "tests/test_run.py::test_one_failure_leaves_its_rows_and_the_other_labs tests/test_run.py::test_rows_are_on_disk_before_the_next_is_measured_and_survive_a_kill"),
    M("result-names-the-host", "examples/run.py", '"cpu": processor()', '"cpu": platform.node()', "tests/test_run.py::test_no_host_user_or_path"),
    M("result-holds-a-path", "examples/run.py", 'save("failed", type(error).__name__)', 'save("failed", str(error))', "tests/test_run.py::test_one_failure_leaves_its_rows_and_the_other_labs"),
    M("lab-runs-without-its-check", "examples/run.py", "        lab.check()\n", "", "tests/test_run.py::test_a_lab_that_fails_its_check_keeps_the_last_result"),
    M("labs-start-without-a-gpu", "examples/run.py", "problem = gpu_problem(options.device) or cannot_write(options.results)", "problem = cannot_write(options.results)", "tests/test_commands.py::test_labs_without_a_gpu"),
    M("slug-keeps-blanks", "examples/run.py", '"-", name.lower()', '" ", name.lower()', "tests/test_run.py::test_slugs"),

    # The hooks' pure cores
    M("unit-behind-a-number-is-not-checked", "docs/hooks/core/measured.py", "        _unit_behind(name, match.string[match.end():])\n", "", "tests/test_placeholders.py::test_mistakes_name_themselves_and_their_line", "MB"),
    M("unit-in-a-header-is-not-checked", "docs/hooks/core/placeholders.py", "            _unit_in_header(cell, name)\n", "", "tests/test_placeholders.py::test_mistakes_name_themselves_and_their_line", "must say its unit"),
    M("two-rows-are-as-good-as-one", "docs/hooks/core/measured.py", "if len(rows) != 1:", "if not rows:", "tests/test_placeholders.py::test_mistakes_name_themselves_and_their_line", "selects 2 rows"),
    M("what-a-result-says-is-not-escaped", "docs/hooks/core/measured.py", 'lambda m: f"&#{ord(m[0])};" if m[0] not in ENTITIES else ENTITIES[m[0]]', "lambda m: m[0]", "tests/test_placeholders.py::test_a_value_carries_its_source_and_escapes_what_the_json_says"),
    M("table-without-its-provenance", "docs/hooks/core/placeholders.py", '"\\n".join(body) + "\\n\\n" + self.numbers.provenance(result) + "\\n"', '"\\n".join(body) + "\\n"', "tests/test_placeholders.py::test_rows_become_table_rows_and_gain_their_provenance"),
    M("bound-nearer-than-runs-lie-apart", "tests/test_claims.py", '< 92 and', '< 87 and', "tests/test_planted.py::test_a_measurement_as_far_off_as_runs_lie_apart_turns_none"),
    M("bound-nearer-than-single-calls-lie-apart", "tests/test_claims.py", "- 1) < 0.08", "- 1) < 0.03", "tests/test_planted.py::test_a_measurement_as_far_off_as_runs_lie_apart_turns_none"),
    M("old-rows-answer-for-a-new-program", "tests/support.py", '(result := measured(lab))["stale"]', '(result := measured(lab)) is None', "tests/test_identity.py::test_rows_answer_for_the_program_that_measured_them_alone"),
    M("no-row-answers-for-its-program", "tests/support.py", '(result := measured(lab))["stale"]', "(result := measured(lab))", "tests/test_identity.py::test_rows_answer_for_the_program_that_measured_them_alone"),
    M("stale-number-without-its-mark", "docs/hooks/core/measured.py", 'stale}">!</sup>\' if result["stale"] else ""', 'stale}">!</sup>\' if result["stale"] is None else ""', "tests/test_placeholders.py::test_a_stale_result_is_marked_in_table_and_text"),
    M("out-of-memory-shown-as-a-dash", "docs/hooks/core/measured.py", 'return plain(label(self.words, rows[0]["status"]) or rows[0]["status"])', 'return "–"', "tests/test_placeholders.py::test_values"),
    M("changed-theme-passes-unseen", "docs/hooks/core/html.py", "if found != count:", "if False:", "tests/test_accessibility.py::test_a_theme_whose_controls_changed_breaks_the_build"),
    M("katex-is-lenient", "docs/hooks/katex.mjs", 'strict: "error"', 'strict: "ignore"', "tests/test_tex.py::test_what_katex_only_warns_of_is_an_error"),
    M("archive-is-dated-by-the-clock", "docs/hooks/core/archive.py", 'zipfile.ZipInfo(f"{top}/{name}", (1980, 1, 1, 0, 0, 0))', 'zipfile.ZipInfo(f"{top}/{name}", __import__("time").localtime()[:6])', "tests/test_downloads.py::test_packed_again_it_is_the_same_whatever_the_order_and_the_clock"),
    M("points-of-a-chart-out-of-reach", "docs/hooks/core/charts.py", 'tabindex="0" role="img"', 'role="img"', "tests/test_charts.py"),
    M("curves-of-a-chart-exchanged", "docs/hooks/core/charts.py", '(row[x_name], row[name], "")', '(row[x_name], row[columns[0][0]], "")', "tests/test_charts.py::test_each_curve_is_its_own_column"),
    M("theatre-writes-before-it-reads", "docs/theme/js/theatre.js", 'events.push(["load", "k", j, c, 0, d], ["store", "s", i, r, j, c]);', 'events.push(["store", "s", i, r, j, c], ["load", "k", j, c, 0, d]);', "tests/test_theatre.py::test_tiles_cross_in_the_order_of_the_program_that_counts[naive-algorithm_0]"),
    M("theatre-skips-no-tile", "docs/theme/js/theatre.js", "(causal ? r : S)", "S", "tests/test_theatre.py::test_tiles_cross_in_the_order_of_tiled_attention"),
    both("ratio-retyped", "lesson.md", "| 57 |", "| 58 |", "tests/test_theatre.py::test_the_ratios_that_stand_side_by_side_follow_from_the_shape[zh]"),
    M("theatre-cache-keeps-nothing", "docs/theme/js/theatre.js", "seen[name] = Math.max(seen[name], r1)", "seen[name] = 0", "tests/test_theatre.py::test_counters_end_at_the_formulas"),
    M("theatre-shows-another-counter", "docs/hooks/core/theatre.py", 'STEPS = ("scores", "softmax", "output")', 'STEPS = ("scores", "scale", "output")', "tests/test_theatre.py::test_the_shape_that_was_measured_ends_at_its_models_and_near_its_counters"),
    M("stepper-takes-another-walk", "docs/hooks/core/online_trace.py", '"m": number(m_new)', '"m": number(m)', "tests/test_stepper.py::test_the_trace_is_the_lessons_walk_for_every_width_and_both_orders"),

    M("formula-changed-by-markdown", "docs/hooks/core/tex.py", 'if "<" in match[4]:', "if False:", "tests/test_tex.py::test_markdown_in_a_formula_is_an_error"),
    M("formula-fails-without-its-place", "docs/hooks/core/tex.py", "_line_of(tex, markdown))", "None)", "tests/test_tex.py::test_a_formula_that_fails_names_itself_and_its_line"),
    M("instant-navigation", "mkdocs.yml", "    - navigation.footer\n", "    - navigation.footer\n    - navigation.instant\n", "tests/test_settings.py::test_what_breaks_pages_is_off"),
    M("markers-in-code", "mkdocs.yml", "    - navigation.footer\n", "    - navigation.footer\n    - content.code.annotate\n", "tests/test_settings.py::test_what_breaks_pages_is_off"),
    M("palette-of-another-name", "mkdocs.zh.yml", "scheme: slate", "scheme: night", "tests/test_settings.py::test_the_colour_schemes_are_the_themes_own"),
    M("generator-is-not-pinned", "pyproject.toml", "mkdocs==1.6.1", "mkdocs>=1.6.1", "tests/test_settings.py::test_what_is_installed_is_pinned"),
    M("katex-is-not-pinned", "package.json", '"katex": "', '"katex": "^', "tests/test_settings.py::test_what_is_installed_is_pinned"),

    # Drawings and colours
    M("drawing-too-pale-to-read", "docs/theme/css/figures.css", "--fig-muted: #586274", "--fig-muted: #98a2b4", "tests/test_drawings.py::test_contrast_in_both_schemes", "--fig-muted"),
    M("drawing-without-its-name", "docs/theme/drawings/merge.svg", 'aria-labelledby="merge-title merge-desc"', "", "tests/test_drawings.py::test_ids_and_accessible_name[merge]"),
    M("drawing-asks-another-host", "docs/theme/drawings/merge.svg", "</svg>", '<image href="https://images.example/a.png" width="1" height="1"/></svg>', "tests/test_drawings.py::test_nothing_active_or_external[merge]"),
    M("a-language-that-is-begun-is-built", "docs/hooks/core/book.py", "    known = {lang: known[lang] for lang in languages(top)}\n", "", "tests/test_words.py::test_a_language_that_has_begun_is_listed_and_hurts_no_other"),
    M("a-quiz-asks-in-two-languages", "docs/hooks/core/quiz.py", "    for lang in languages:\n        if not isinstance(part, dict)", '    for lang in ("en", "zh"):\n        if not isinstance(part, dict)', "tests/test_words.py::test_a_language_that_is_to_be_built_and_lacks_its_words_is_told_how_to_find_what_it_lacks"),
    M("word-is-missing", "docs/words/zh.yml", re.compile(r"^  see: .*\n", re.M), "", "tests/test_words.py::test_every_word_is_asked_for_and_said_in_every_language", "no word 'quiz.see', which docs/hooks/core/quiz.py"),
    M("word-that-nothing-asks-for", "docs/words/en.yml", "\nquiz:\n", "\nquiz:\n  nobody: x\n", BUILD, "'quiz.nobody', which nothing asks for"),
    M("word-is-asked-for-and-not-there", "docs/theme/js/run.js", "words.stopped", "words.halted", BUILD, "no word 'run.halted', which docs/theme/js/run.js"),
    M("word-fills-in-something-else", "docs/words/zh.yml", re.compile(r"^(  right_is: .*)\{text\}", re.M), r"\1{that}", BUILD, "'quiz.right_is' fills in {that}"),
    M("label-of-a-result-has-no-word", "docs/hooks/core/words.py", "return value if NAME.fullmatch(value) else None", "return value", "tests/test_words.py::test_labels_of_results_are_said_part_by_part"),
    M("page-hands-scripts-every-word", "docs/hooks/shim.py", 'for name in sorted({"site", *widgets}) if', "for name in sorted(book.scripts[lang]) if", "tests/test_words.py::test_a_page_hands_scripts_the_words_that_they_ask_for_and_no_others"),
    M("drawing-lacks-a-word", "docs/words/zh.yml", re.compile(r"^    rescale-1: .*\n", re.M), "", "tests/test_words.py::test_every_word_is_asked_for_and_said_in_every_language", "drawings.merge.rescale-1"),
    M("drawing-holds-a-word", "docs/theme/drawings/merge.svg", "{{rescale-1}}", "rescale", "tests/test_drawings.py::test_a_drawing_holds_keys_and_no_words[merge]", "rescale"),
    M("drawing-has-a-text-beyond-its-box", "docs/words/en.yml", re.compile(r"^(    exact: .*)$", re.M), r"\1, and no more than that", "tests/test_drawings.py::test_no_text_is_wider_than_its_place", "beyond"),
    M("drawing-is-black-in-the-dark", "docs/theme/drawings/merge.svg", 'fill="var(--fig-ink, CanvasText)"', 'fill="#000"', "tests/test_drawings.py::test_colours_are_theme_variables[merge]"),

    # Evidence
    M("evidence-sentence-edited", "docs/evidence/vllm.json", "The flag is `--attention-backend`.", "The flag is `--attn-backend`.", "tests/test_verify_vllm.py::test_the_evidence_is_of_these_statements", "make verify-vllm"),
    M("statement-removed", "tools/verify/statements.py", '"flag-backend", "choose"', '"flag-other", "choose"', "tests/test_verify_vllm.py::test_the_evidence_is_of_these_statements"),
    M("evidence-place-edited", "docs/evidence/vllm.json", '"line": 930,', '"line": 931,', "tests/test_verify_vllm.py::test_the_evidence_is_as_it_was_written"),
    M("line-number-of-vllm-typed", "docs/en/vllm.md", "## The path { #path }\n", "## The path { #path }\n\nSee `flash_attn.py:123`.\n", "tests/test_vllm_page.py::test_no_line_number_is_typed"),

    # Workflows and commands
    M("strangers-run-with-rights", ".github/workflows/check.yml", "  pull_request:\n", "  pull_request_target:\n", "tests/test_workflows.py::test_no_trigger_hands_rights_to_strangers"),
    M("check-may-write", ".github/workflows/check.yml", "contents: read", "contents: write", "tests/test_workflows.py::test_rights_are_given_where_they_are_used"),
    M("checkout-leaves-its-token", ".github/workflows/check.yml", "persist-credentials: false", "persist-credentials: true", "tests/test_workflows.py::test_rights_are_given_where_they_are_used"),
    M("gpu-runner-takes-any-branch", ".github/workflows/measure.yml", "github.ref == 'refs/heads/main'", "github.ref != ''", "tests/test_workflows.py::test_our_own_runners_get_main_only"),
    M("gpu-runner-takes-pull-requests", ".github/workflows/measure.yml", "  workflow_dispatch:\n", "  workflow_dispatch:\n  pull_request:\n", "tests/test_workflows.py::test_our_own_runners_get_main_only"),
    M("deploy-is-cut-short", ".github/workflows/publish.yml", "group: deploy\n      cancel-in-progress: false", "group: deploy\n      cancel-in-progress: true", "tests/test_workflows.py::test_one_run_at_a_time_and_no_deploy_is_cut_short"),
    M("deploy-without-the-check", ".github/workflows/publish.yml", "needs: [check, build]", "needs: [build]", "tests/test_workflows.py::test_one_run_at_a_time_and_no_deploy_is_cut_short"),
    M("deploy-stands-in-the-build", ".github/workflows/publish.yml", "        with: { path: site/ }\n", "        with: { path: site/ }\n      - uses: actions/deploy-pages@v4\n", "tests/test_workflows.py::test_one_run_at_a_time_and_no_deploy_is_cut_short"),
    M("two-runs-publish-at-once", ".github/workflows/publish.yml", "  group: publish\n", "  group: publish-${{ github.sha }}\n", "tests/test_workflows.py::test_one_run_at_a_time_and_no_deploy_is_cut_short"),
    M("gpu-runner-may-write", ".github/workflows/measure.yml", "      contents: read\n", "      contents: write\n", "tests/test_workflows.py::test_our_own_runners_get_main_only"),
    M("results-are-proposed-without-checks", "tools/propose.sh", 'gh workflow run check.yml --ref "$branch"\n', "", "tests/test_workflows.py::test_a_pull_request_of_the_workflow_has_its_checks_dispatched"),
    M("publish-waits-for-the-gpu", ".github/workflows/publish.yml", "  workflow_dispatch:\n", '  workflow_dispatch:\n  schedule:\n    - cron: "43 3 * * 6"\n', "tests/test_workflows.py::test_publishing_waits_for_no_gpu_and_measuring_starts_no_loop"),
    M("a-push-measures-in-any-case", ".github/workflows/measure.yml", "needs.changed.outputs.labs != ''", "needs.changed.outputs.labs != 0", "tests/test_workflows.py::test_a_push_that_changes_no_measurement_measures_nothing"),
    M("stale-names-nothing", "tools/results.py", 'any(result["stale"] for', "any(False for", "tests/test_workflows.py::test_an_edit_that_measures_something_else_names_its_labs_and_a_comment_none"),
    M("results-start-the-measuring-again", ".github/workflows/measure.yml", '["examples/*.py"', '["examples/**"', "tests/test_workflows.py::test_publishing_waits_for_no_gpu_and_measuring_starts_no_loop"),
    M("what-was-measured-is-lost-on-failure", ".github/workflows/measure.yml", "        if: always()\n", "", "tests/test_workflows.py::test_what_was_measured_is_kept_whatever_happened"),
    M("failing-tests-are-forgiven", ".github/workflows/check.yml", "run: make test", "run: make test || true", "tests/test_commands.py::test_the_check_runs_both_commands_and_nothing_softens_them"),
    M("a-step-of-publish-may-fail", ".github/workflows/publish.yml", "        run: make check-results\n", "        run: make check-results\n        continue-on-error: true\n", "tests/test_workflows.py::test_every_job_ends_and_every_step_is_a_make_target"),
    M("site-step-is-forgiven", ".github/workflows/publish.yml", "run: make offline", "run: make offline || true", "tests/test_workflows.py::test_every_job_ends_and_every_step_is_a_make_target"),
    M("a-pipe-hides-a-failure", ".github/workflows/publish.yml", "    shell: bash\n", "    shell: sh\n", "tests/test_workflows.py::test_every_job_ends_and_every_step_is_a_make_target"),
    M("make-test-is-never-red", "Makefile", "--durations 20 $(ARGS)", "--durations 20 $(ARGS) || true", "tests/test_commands.py::test_a_failing_test_or_site_fails_make_and_ci"),
    M("ci-is-never-red", ".ci/run", "exec make test", "make test || true", "tests/test_commands.py::test_a_failing_test_or_site_fails_make_and_ci"),
    M("warnings-are-silenced", "Makefile", "mkdocs build --strict --site-dir", "mkdocs build --quiet --strict --site-dir", "tests/test_commands.py::test_the_check_runs_both_commands_and_nothing_softens_them", "silences"),
    M("site-is-built-without-strict", "Makefile", "mkdocs build --strict\n", "mkdocs build\n", "tests/test_commands.py::test_a_failing_test_or_site_fails_make_and_ci"),
    M("artifact-of-a-fork-is-taken", "tools/results.py", ' and made["head_repository_id"] == made["repository_id"]', "", "tests/test_workflows.py::test_the_newest_artifact_of_each_card_is_taken_and_none_of_a_fork"),
    M("damaged-result-is-taken", "tools/results.py", "if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:", "if False:", "tests/test_workflows.py::test_a_link_or_a_giant_is_no_result"),

    # Each lab's formula or rule, against numbers by hand: rows of an older program answer for it no more
    M("formula-of-naive-memory", MEMORY, '"o = p @ v": inputs + mask + 2 * square + rows', '"o = p @ v": inputs + mask + 2 * square', "tests/test_flash_vs_naive_memory.py::test_naive_by_hand"),
    M("formula-of-flash-memory", MEMORY, "lse = 4 * B * heads * S\n", "lse = 2 * B * heads * S\n", "tests/test_flash_vs_naive_memory.py::test_flash_by_hand"),
    M("formula-of-attention-flops", "examples/attention_roofline.py", "return (2 if causal else 4) * B", "return (4 if causal else 4) * B", "tests/test_attention_roofline.py::test_flops_are_those_of_two_matmuls_half_of_them_causal"),
    M("formula-of-the-kv-cache", "examples/decode_attention.py", "return 2 * B * kv_heads * S * d * e", "return B * kv_heads * S * d * e", "tests/test_decode_attention.py::test_the_cache_of_one_layer"),
    M("formula-of-added-bytes", "examples/decode_attention.py", "return o + 4 * B * heads + 24", "return o + 4 * B * heads", "tests/test_decode_attention.py::test_bytes_added"),
    M("model-of-device-memory", "examples/hbm_traffic.py", '"softmax": (square, square)', '"softmax": (square, 2 * square)', "tests/test_hbm_traffic.py::test_the_numbers_of_the_lesson"),
    M("formula-of-the-backward-pass", "examples/flash_backward.py", '"ds": kept - copy + row + 3 * square', '"ds": kept - copy + row + 2 * square', "tests/test_flash_backward.py::test_naive_by_hand"),
    M("rule-of-16-bits-forgives-more", "examples/attention_error.py", "return 2 * naive_max_err + 1e-5", "return 4 * naive_max_err + 1e-5", "tests/test_attention_error.py"),
    M("square-growth-is-not-seen", "examples/sdpa_dispatch.py", "score_bytes is not None and score_bytes >= 1", "score_bytes is not None and score_bytes >= 9", "tests/test_sdpa_dispatch.py::test_quadratic"),
    M("formula-of-a-ring-pass", "examples/ring/formulas.py", "return 2 * B * kv_heads * (S // P) * d * e", "return B * kv_heads * (S // P) * d * e", "tests/test_ring_attention.py::test_bytes_of_a_pass"),
    M("calculator-has-another-formula", "docs/theme/js/formulas.js", "0.85", "0.8", "tests/test_calculator.py::test_formulas_of_the_page_are_the_labs_on_ten_thousand_shapes"),
    M("kernel-named-by-wish", "examples/sdpa_dispatch.py", 'return "math" if names else "error"', 'return "flash" if names else "error"', "tests/test_sdpa_dispatch.py::test_backends_by_the_names_of_their_kernels"),
    M("row-dropped-when-memory-is-out", "examples/kit/memory.py", 'if "out of memory" not in str(error).lower():\n            raise', "raise", "tests/test_flash_vs_naive_memory.py::test_out_of_memory_is_a_row_and_the_run_goes_on"),
    M("memory-kept-after-running-out", "examples/kit/memory.py", "    release()\n    return None", "    return None", "tests/test_flash_vs_naive_memory.py::test_cleaning_comes_after_the_except_block"),
    M("old-card-is-let-in", "examples/kit/card.py", "if not hip and major < 8:", "if False:", "tests/test_flash_vs_naive_memory.py::test_refusals"),
    M("lab-compares-nothing-first", MEMORY, "def check(attention=flash, baseline=naive, device=None, S=None):\n", "def check(attention=flash, baseline=naive, device=None, S=None):\n    return\n", "tests/test_flash_vs_naive_memory.py::test_the_check_rejects"),
    M("tiles-see-the-future", "examples/tiled_attention.py", "key >= keys_of_first_row", "key > keys_of_first_row", "tests/test_tiled_attention.py::test_equals_sdpa_math_in_float64"),

    # The build
    both("placeholder-of-a-row-that-is-not-there", "index.md", "S=4096", "S=4097", BUILD, r"docs/en/index.md:\d+: .*selects 0 rows"),
    both("unit-missing-in-a-header", "lesson.md", re.compile(r"[^|]* \{naive_mib\}"), " 1 {naive_mib}", BUILD, "must say its unit, MiB"),
    both("unit-wrong-behind-a-number", "index.md", " MiB → {{", " MB → {{", BUILD, "'MB' is written behind it"),
    both("glossary-lacks-a-word", "glossary.md", "{ #fallback }", "{ #fall-back }", BUILD, "glossary.md#fallback"),
    both("tex-that-katex-does-not-know", "lesson.md", r"\operatorname{softmax}", r"\operatornam{softmax}", BUILD, r"docs/en/lesson.md:\d+: formula"),
    both("tex-that-katex-only-warns-of", "lesson.md", "$B$ batch", "$B€$ batch", BUILD, r"docs/en/lesson.md:\d+: formula", zh=("$B$ ", "$B€$ ")),
    M("snippet-of-a-missing-file-is-empty", "mkdocs.yml", "check_paths: true", "check_paths: false", "tests/test_site.py::test_a_build_that_must_fail", "online_sofmax.py"),
    M("section-cut-short", "docs/hooks/core/sections.py", "after.setdefault(node.end_lineno, [])", "after.setdefault(node.lineno, [])", "docs/en/lesson.md", "Error"),
    M("examples-differ-from-what-is-served", "docs/hooks/shim.py", 'generated = {f"examples/{name}": text for', 'generated = {f"examples/{name}": text.rstrip() for', "tests/test_site.py::test_each_example_is_served_byte_for_byte"),
    M("a-word-marks-every-page", "docs/hooks/core/results.py", "return identity.identity(self.path)", "return digest(self.text.encode())", "tests/test_site.py::test_what_only_prints_changes_the_output_on_the_page_and_marks_nothing"),
    M("output-is-not-derived", "docs/hooks/core/results.py", "said.append(lab.line(row))", "said.append(str(row))", "tests/test_run.py::test_what_pages_show_as_output_is_what_the_lab_prints"),
    M("change-of-a-program-goes-unseen", "docs/hooks/core/results.py", 'else self.id != result["source"]["id"]', "else False", "tests/test_site.py::test_a_change_of_what_a_lab_measures_marks_every_page_that_shows_its_numbers[a constant]"),
    M("nan-in-a-result-is-let-in", "docs/hooks/core/results.py", ", parse_constant=refuse", "", "tests/test_site.py::test_a_build_that_must_fail"),
    Mutation("server-rebuilds-for-ever", [("docs/hooks/shim.py", 'CACHE = TOP / ".cache" / "snippets"', 'CACHE = TOP / "docs" / "hooks" / "snippets"'),
                                          ("docs/hooks/shim.py", 'if not path.is_file() or path.read_text("utf-8") != text:', "if True:")],
      "tests/test_commands.py::test_serve_shows_both_languages_and_follows_every_kind_of_edit"),
    M("edited-page-is-served-as-it-was", "docs/hooks/shim.py", "facts, heads, place, markdown)", "facts, heads, place)", "tests/test_serve.py::test_a_sentence_renders_its_page_alone_and_soon"),
    M("unchanged-page-is-rendered-again", "docs/hooks/kept.py", "data = self.memory.get(name) or self._read(name)", "data = None", "tests/test_serve.py::test_a_sentence_renders_its_page_alone_and_soon", "made again"),
    M("broken-link-is-told-once", "docs/hooks/shim.py", ", unless=warned.get_counts)", ")", "tests/test_serve.py::test_what_a_page_was_warned_of_is_told_at_each_build[nowhere.md]"),

    # The built site
    M("picture-of-another-host", "docs/en/index.md", "## For whom { #for-whom }\n", '## For whom { #for-whom }\n\n<img src="https://images.example/a.png" alt="a">\n', FINDING, "images.example"),
    M("fonts-of-another-host", "mkdocs.yml", "  font: false\n", "", FINDING, "fonts"),
    M("style-of-another-host", "docs/theme/css/site.css", ":root {", '@import "https://styles.example/a.css";\n:root {', FINDING, "styles.example"),
    M("script-asks-another-host", "docs/theme/js/run.js", "let count = 0;", 'let count = 0;\nfetch("https://count.example/");', FINDING),
    M("picture-without-words", "docs/en/index.md", "## For whom { #for-whom }\n", '## For whom { #for-whom }\n\n<img src="../img/mark.svg" alt="">\n', FINDING),
    M("display-formula-behind-text", "docs/en/lesson.md", "\n\n$$", "\n$$", FINDING, "TeX|tex"),
    M("display-formula-in-a-list", "docs/en/index.md", "## For whom { #for-whom }\n", "## For whom { #for-whom }\n\n- text\n\n  $$\n  a\n  $$\n", FINDING, "TeX|tex"),
    M("formula-in-raw-html", "docs/en/index.md", "## For whom { #for-whom }\n", "## For whom { #for-whom }\n\n<details><summary>a</summary>$\\ell$</details>\n", FINDING, "TeX|tex"),
    M("chinese-search-without-its-segmenter", "docs/hooks/shim.py", 'log = get_plugin_logger("lesson")\n', 'log = get_plugin_logger("lesson")\nsys.modules["jieba"] = None\n', "tests/test_search.py::test_the_right_page_is_among_the_first_three"),
    M("page-of-no-language", "mkdocs.zh.yml", "  language: zh\n", "  language: en\n", FINDING, "lang"),
    M("404-page-of-no-language", "docs/theme/plain.html", re.compile(r'<html lang="[^"]*">'), "<html>", FINDING, "lang"),
    M("404-page-in-one-language", "docs/theme/404.html", "([config.extra.lang] + (config.extra.languages | list)) | unique", "['en']", FINDING),
    M("sitemap-names-another-language", "docs/theme/sitemap.xml", "every_word[code].language.tag", "code", FINDING),
    M("chinese-search-is-not-split", "mkdocs.zh.yml", r"\u200b", "", "tests/test_search.py::test_the_right_page_is_among_the_first_three"),
    M("id-stands-twice", "docs/en/index.md", "## For whom { #for-whom }\n", '## For whom { #for-whom }\n\n<span id="start"></span>\n', FINDING, "start"),
    M("licence-of-a-third-party-is-gone", "THIRD-PARTY.md", "`assets/pyodide/`", "`assets/other/`", "tests/test_site.py::test_what_others_made_is_named_with_its_licence", "THIRD-PARTY.md"),
    M("styles-of-formulas-on-every-page", "docs/theme/main.html", "{% if has_math %}<link", "{% if true %}<link", FINDING),

    M("blanks-break", "docs/hooks/core/page.py", "typography.bind(html.code(html.controls(page, words), words))", "html.code(html.controls(page, words), words)", "tests/test_typography.py::test_every_page_is_bound_and_the_search_index_is_not"),
    M("short-formulas-break", "docs/theme/css/site.css", ".together, [data-short]", ".together", "tests/test_typography.py::test_no_line_breaks_inside[zh/lesson/]", "px: "),
    M("blanks-are-bound-in-code", "docs/hooks/core/typography.py", "<(pre|code|", "<(pre|", "tests/test_typography.py::test_what_stays_as_it_is"),
    M("amounts-lose-their-commas", "docs/hooks/core/typography.py", "{int(match[1]):,}", "{int(match[1])}", "tests/test_typography.py::test_what_is_read_as_one"),
    both("a-length-gets-a-comma", "lesson.md", "S = 25400", "S = 25,400", "tests/test_typography.py::test_numbers_have_one_format", r"lesson.md:\d+"),
    M("zh-404-begins-in-english", "docs/theme/404.html", "([config.extra.lang] + (config.extra.languages | list)) | unique", "config.extra.languages", FINDING, "zh/404.html"),
    M("result-word-in-english-on-a-chinese-page", "docs/hooks/core/measured.py", 'if self.place.lang == "en" else None', "", "tests/test_placeholders.py::test_words_of_a_result_are_said_in_chinese_and_names_stay", "DID NOT RAISE"),

    # In a browser
    M("page-scrolls-sideways", "docs/theme/css/site.css", "div.math { overflow-x: auto; overflow-y: hidden;", "div.math {", "tests/test_every_page.py::test_a_page_holds[phone-en/lesson/]", "sideways"),
    M("script-of-a-page-is-broken", "docs/theme/js/site.js", "const narrow =", "nothing.there();\nconst narrow =", "tests/test_every_page.py::test_a_page_holds[phone-en/]", "nothing is not defined"),
    M("copy-button-on-code", "docs/theme/css/site.css", "padding-right: 1.9rem; ", "", "tests/test_every_page.py::test_a_page_holds[phone-en/lesson/]", "lies on"),
    M("formula-takes-the-clicks-of-a-link", "docs/theme/css/site.css", ".katex .vlist { pointer-events: none; }", "", "tests/test_every_page.py::test_a_page_holds[desktop-en/notebooks/flash_vs_naive_memory/]", "is covered by"),
    M("fonts-of-formulas-arrive-late", "docs/theme/main.html", '<link rel="preload" as="font"', '<link rel="none"', "tests/test_budgets.py::test_the_first_visit_of_the_lesson_is_light[en]", "how wide a formula is"),
    M("all-is-laid-out-at-once", "docs/theme/css/site.css", "content-visibility: auto;", "content-visibility: visible;", "tests/test_budgets.py::test_what_lies_far_below_is_laid_out_later_in_a_space_of_its_height[phone-en]", "elements"),
    M("parts-of-no-height", "docs/hooks/core/parts.py", '"line": (1.054, 1.054),', '"line": (0.1, 0.1),', "tests/test_budgets.py::test_what_lies_far_below_is_laid_out_later_in_a_space_of_its_height[phone-en]", "times as high"),
    M("link-stops-short-of-its-target", "docs/theme/js/site.js", "else if (location.hash) come = arrive;", "", "tests/test_parts.py::test_a_link_into_what_was_not_laid_out_arrives[1440-en]", "by address: "),
    M("a-fold-stays-shut-on-arrival", "docs/theme/js/site.js", 'fold = fold.parentElement.closest("details")) fold.open = true;', 'fold = fold.parentElement.closest("details")) fold.open = false;', "tests/test_hard_places.py::test_the_lesson_is_short_and_shows_the_place_is_kept_and_what_is_folded_opens_on_arrival[en]"),
    M("the-fold-under-a-heading-stays-shut", "docs/theme/js/site.js", "whole.open = true;", "whole.open = false;", "tests/test_hard_places.py::test_the_lesson_is_short_and_shows_the_place_is_kept_and_what_is_folded_opens_on_arrival[zh]"),
    M("the-place-is-not-kept", "docs/theme/js/site.js", "JSON.stringify({ at, read: [...read] })", "JSON.stringify({ read: [...read] })", "tests/test_hard_places.py::test_the_lesson_is_short_and_shows_the_place_is_kept_and_what_is_folded_opens_on_arrival[en]"),
    M("progress-needs-storage", "docs/theme/js/site.js", "try { const held = JSON.parse(localStorage.getItem(kept)); at = held.at; for (const id of held.read) read.add(id); } catch { /* nothing is kept, or storage is switched off */ }", "{ const held = JSON.parse(localStorage.getItem(kept)) ?? { read: [] }; at = held.at; for (const id of held.read) read.add(id); }", "tests/test_hard_places.py::test_nothing_needs_storage[en]"),
    M("reload-loses-the-place", "docs/theme/js/site.js", "come = resume;", "come = null;", "tests/test_parts.py::test_a_reload_and_the_way_back_lead_to_where_one_was[1440-en]", "reload"),
    M("answers-cut-in-two", "docs/hooks/core/parts.py", "        if opened:\n            continue\n", "", "tests/test_parts.py::test_a_heading_inside_a_box_opens_no_part"),
    M("no-copy-buttons", "docs/hooks/core/html.py", "data-clipboard-target", "data-clipboard-aim", "tests/test_browser.py::test_copy_gives_the_source_and_a_copied_file_runs[en]"),
    both("output-can-be-copied", "lesson.md", '```{.text .no-copy title="python online_softmax.py"}', '```{.text title="python online_softmax.py"}', "tests/test_browser.py::test_copy_gives_the_source_and_a_copied_file_runs[en]", "offers to copy"),
    M("switcher-loses-its-place", "docs/theme/js/site.js", "}`) + reading());", "}`));", "tests/test_browser.py::test_the_switcher_keeps_page_and_anchor_both_ways[en/lesson/]"),
    M("root-page-knows-english-only", "docs/theme/js/choose.js", "navigator.languages.map", '["en"].map', "tests/test_browser.py::test_the_root_page_follows_the_browser_and_remembers_the_reader"),
    # The site where it is hard for it
    M("colours-of-one-language-alone", "docs/theme/js/head.js", "new URL(document.currentScript.dataset.root, location)", 'new URL(".", location)', "tests/test_hard_places.py::test_one_choice_of_colours_for_the_site_and_the_systems_until_then"),
    M("system-is-not-followed", "docs/theme/js/site.js", "() => setTimeout(paint));", "() => null);", "tests/test_hard_places.py::test_one_choice_of_colours_for_the_site_and_the_systems_until_then"),
    M("colours-kept-that-nobody-chose", "docs/theme/js/head.js", 'if (key !== "__palette") __md_keep(key, value);', "__md_keep(key, value.index ?? value);", "tests/test_hard_places.py::test_one_choice_of_colours_for_the_site_and_the_systems_until_then", "did not choose"),
    M("theme-needs-storage", "docs/theme/js/head.js", "try { value = JSON.parse(localStorage.getItem(name(key))) ?? value; } catch { /* switched off, or not ours */ }", "value = JSON.parse(localStorage.getItem(name(key))) ?? value;", "tests/test_hard_places.py::test_nothing_needs_storage[en]"),
    M("wasm-needs-its-type", "docs/theme/js/python-worker.js", 'address.endsWith(".wasm") ? { headers: { "Content-Type": "application/wasm" } } : response', "response", "tests/test_hard_places.py::test_what_a_widget_fetches_and_does_not_get_is_said_and_can_be_tried_again[run]"),
    M("broken-wasm-loads-for-ever", "docs/theme/js/python-worker.js", "    postMessage({ failed: `pyodide.asm.wasm: ${error.message}` });\n", "", "tests/test_hard_places.py::test_what_a_widget_fetches_and_does_not_get_is_said_and_can_be_tried_again[run]", "pyodide.asm.wasm, "),
    M("python-waits-for-ever", "docs/theme/js/python.js", "WAIT = 60_000", "WAIT = 60_000_000", "tests/test_hard_places.py::test_what_a_widget_fetches_and_does_not_get_is_said_and_can_be_tried_again[run]", "never"),
    M("another-page-is-taken-for-a-file", "docs/theme/js/run.js", 'if (/^\\s*<!doctype/i.test(text)) throw new Error("HTML");', "", "tests/test_hard_places.py::test_what_a_widget_fetches_and_does_not_get_is_said_and_can_be_tried_again[exercise]", "page"),
    M("missing-script-is-not-said", "docs/theme/js/site.js", "    element.prepend(line);\n    return false;", "    return false;", "tests/test_hard_places.py::test_a_widget_whose_script_does_not_come_says_so_and_comes_when_asked_again[quiz-lesson/]"),
    M("missing-search-is-not-said", "docs/theme/js/late.js", "catch { return tell(again); }", "catch { return null; }", "tests/test_hard_places.py::test_a_search_that_does_not_come_is_said_and_comes_when_asked_again[search_index.json-403]"),
    M("search-without-its-worker-waits", "docs/theme/js/late.js", 'worker.addEventListener("error", failed);', "", "tests/test_hard_places.py::test_a_search_that_does_not_come_is_said_and_comes_when_asked_again[.min.js-403]"),
    M("undo-is-lost-by-a-reload", "docs/theme/js/run.js", "let back = replaced !== null && area.value === first;", "let back = false;", "tests/test_hard_places.py::test_nothing_typed_is_lost[run]"),
    M("tab-overwrites-what-another-kept", "docs/theme/js/run.js", '  addEventListener("storage", (event) => event.key === key && compare());\n', "", "tests/test_hard_places.py::test_nothing_typed_is_lost[exercise]"),
    M("quiz-cannot-be-brought-back", "docs/theme/js/quiz.js", "store(`${key}:before`, before);", "", "tests/test_hard_places.py::test_answers_fields_and_numbers_that_were_typed_come_back"),
    M("control-runs-off-a-zoomed-window", "docs/theme/css/widgets.css", ".widget .bar { display: flex; flex-wrap: wrap;", ".widget .bar { display: flex; margin-left: -6rem;", "tests/test_hard_places.py::test_at_200_percent_whatever_takes_the_focus_is_seen_and_nothing_runs_off_the_side[zh-calculator/]", "button"),
    M("header-covers-what-has-the-focus", "docs/theme/css/site.css", ".md-header__title { font-weight: 650; }", ".md-header__title { font-weight: 650; } .md-header { position: fixed; inset: 0; }", "tests/test_hard_places.py::test_at_200_percent_whatever_takes_the_focus_is_seen_and_nothing_runs_off_the_side[en-gpu/]", "under"),
    M("paper-cuts-a-program", "docs/theme/css/widgets.css", ".widget .editor:has(~ .paper) { display: none; }\n  .widget .paper { display: block;", ".widget .paper { display: none;", "tests/test_hard_places.py::test_paper_has_the_whole_program_and_every_step[scripts-exercise]"),
    M("code-is-translated", "docs/hooks/core/html.py", "<(code|kbd)(?=", "<(kbd)(?=", "tests/test_hard_places.py::test_a_browser_that_translates_leaves_code_and_formulas_alone[en]", "<code"),
    M("edge-shows-nothing", "docs/theme/css/site.css", "background-attachment: local, local, scroll, scroll;", "background-attachment: scroll;", "tests/test_hard_places.py::test_what_is_cut_at_the_edge_shows_it[390]"),
    M("tapped-term-leaves-the-page", "docs/theme/js/site.js", "    event.preventDefault();\n    tell(target);", "    tell(target);", "tests/test_hard_places.py::test_a_finger_and_a_keyboard_reach_what_a_title_says"),
    M("number-out-of-reach", "docs/theme/js/site.js", "number.tabIndex = 0; ", "", "tests/test_hard_places.py::test_a_finger_and_a_keyboard_reach_what_a_title_says"),
    M("close-mark-too-pale", "docs/theme/css/site.css", "line-height: 1; color: inherit; cursor", "line-height: 1; cursor", "tests/test_hard_places.py::test_the_open_drawer_has_contrast[light]"),
    M("word-in-another-sense-is-linked", "docs/en/glossary.md", "query: query; queries; keys", "query: query; queries; keys; value", "tests/test_hard_places.py::test_a_word_in_another_sense_leads_nowhere", "query"),
    M("links-too-pale", "docs/theme/css/site.css", "--md-typeset-a-color: #0b6b63;", "--md-typeset-a-color: #7fc7c0;", "tests/test_accessibility.py::test_axe_finds_nothing_in_either_theme_and_the_narrowest_screen_holds_the_page[en/]", "color-contrast"),
    M("buttons-without-names", "docs/hooks/core/html.py", 'aria_expanded="false", aria_label=name)', 'aria_expanded="false")', "tests/test_accessibility.py::test_axe_finds_nothing_in_either_theme_and_the_narrowest_screen_holds_the_page[en/]", "button-name"),
    M("focus-is-not-seen", "docs/theme/css/site.css", ".md-header__button:focus-visible { outline: 2px solid currentColor", ".md-header__button:focus-visible { outline: 0 solid currentColor", "tests/test_accessibility.py::test_the_header_by_keyboard[en]"),
    M("paper-hides-the-answers", "docs/theme/css/site.css", ".md-typeset details::details-content { display: block; content-visibility: visible; block-size: auto; }", "", "tests/test_accessibility.py::test_paper_is_white_and_shows_every_answer"),
    M("drawer-cannot-be-closed", "docs/theme/js/site.js", 'if (event.key === "Escape" && document.getElementById("__drawer").checked)', "if (false)", "tests/test_accessibility.py::test_the_drawer_by_keyboard[en]"),

    # Widgets
    M("python-comes-before-the-click", "docs/theme/js/run.js", "  rest();\n\n", "  rest();\n  python.start();\n\n", "tests/test_run_widget.py::test_nothing_is_fetched_before_the_click_and_the_tested_file_runs"),
    M("stop-does-not-stop", "docs/theme/js/python.js", "    this.#worker?.terminate();\n", "", "tests/test_run_widget.py::test_stop_ends_an_endless_loop_and_what_it_printed_is_there"),
    M("stop-is-not-connected", "docs/theme/js/run.js", '  stop.addEventListener("click", () => python.stop());\n', "", "tests/test_run_widget.py::test_stop_ends_an_endless_loop_and_what_it_printed_is_there"),
    M("reset-does-not-restore", "docs/theme/js/run.js", "put(back ? replaced : first)", "put(area.value)", "tests/test_run_widget.py::test_edits_survive_a_reload_and_reset_brings_the_file_back"),
    M("output-without-a-limit", "docs/theme/js/python-worker.js", "const LIMIT = 100_000;", "const LIMIT = 100_000_000;", "tests/test_run_widget.py::test_ten_megabytes_of_output_do_not_freeze_the_page"),
    M("error-names-another-line", "docs/theme/js/python-worker.js", '"line": lines[-1] if lines else None', '"line": lines[0] if lines else None', "tests/test_run_widget.py::test_a_traceback_names_the_readers_line"),
    M("theatre-opens-elsewhere", "docs/theme/js/theatre.js", "rebuild(data.at);", "rebuild(0);", "tests/test_theatre.py::test_it_opens_as_the_picture_that_stands_there_without_scripts[en]", "would jump"),
    M("theatre-steps-past-a-tile", "docs/theme/js/theatre.js", '"click", () => step(1)', '"click", () => step(2)', "tests/test_theatre.py::test_steps_scrubs_and_ends_by_keyboard_and_mouse[en]"),
    M("theatre-does-not-stop", "docs/theme/js/theatre.js", "    cancelAnimationFrame(frame);\n", "", "tests/test_theatre.py::test_plays_and_pauses_and_shows_steps_to_who_wants_less_motion[en]"),
    M("stepper-ends-elsewhere", "docs/theme/js/stepper.js", "walk.result.map", "walk.tiles.at(-1).o.map", "tests/test_stepper.py::test_every_width_and_order_ends_at_the_tested_output"),
    M("stepper-skips-a-step", "docs/theme/js/stepper.js", '"click", () => move(at + 1)', '"click", () => move(at + 2)', "tests/test_stepper.py::test_every_width_and_order_ends_at_the_tested_output"),
    M("stepper-talks-while-it-plays", "docs/theme/js/stepper.js", 'say.setAttribute("aria-live", "off");', "", "tests/test_stepper.py::test_play_goes_on_by_itself_pauses_and_does_not_talk_meanwhile"),
    M("exercise-is-solved-by-half", "docs/theme/js/exercise.js", "passed === found.length", "passed > 0", "tests/test_exercise_widget.py::test_fail_and_pass[en]"),
    M("exercise-never-gives-up", "docs/theme/js/exercise.js", "SECONDS * 1000", "SECONDS * 1000000", "tests/test_exercise_widget.py::test_an_endless_loop_ends_and_the_page_lives"),
    M("exercise-forgets-without-saying-so", "docs/theme/js/exercise.js", "(kept ? words.kept : words.unkept)", "words.kept", "tests/test_exercise_widget.py::test_without_storage_it_says_so[en]"),
    M("widget-says-nothing-without-scripts", "docs/hooks/core/widgets.py", "f'<table class=\"walk\">", "f'<table class=\"walk\" style=\"display: none\">", "tests/test_stepper.py::test_without_scripts_one_walk_stands_as_a_table[en]"),

    # The quiz
    Mutation("quiz-another-choice-is-right", [("docs/quiz/lesson.yml", "  - id: bytes\n    right: true\n", "  - id: bytes\n"), ("docs/quiz/lesson.yml", "  - id: pruning\n", "  - id: pruning\n    right: true\n")],
             "tests/test_quiz.py::test_the_key_is_the_one_written_here", "pruning"),
    Mutation("quiz-choices-changed-places", [("docs/quiz/lesson.yml", re.compile(r"(?s)(- id: named-backend\n.*?)  - id: next\n(.*?)  - id: fails\n"), r"\1  - id: fails\n\2  - id: next\n")],
             "tests/test_quiz.py::test_the_key_is_the_one_written_here", "named-backend"),
    M("quiz-answer-leads-elsewhere", "docs/quiz/lesson.yml", "see: lesson.md#intuition", "see: lesson.md#tiling", "tests/test_quiz.py::test_an_answer_leads_to_where_it_is_proven", "why-faster"),
    M("quiz-question-without-an-answer", "docs/quiz/lesson.yml", "    right: true\n", "", BUILD, "one choice must be right, and none is"),
    Mutation("quiz-figure-retyped", 2 * [("docs/quiz/lesson.yml", "62 FLOP", "63 FLOP")], "tests/test_quiz.py::test_no_figure_is_typed_that_nothing_recomputes", "63 FLOP"),
    M("quiz-takes-two-right-answers", "docs/hooks/core/quiz.py", "if len(right) != 1:", "if not right:", "tests/test_quiz.py::test_a_malformed_question_is_refused_with_its_file_and_id", "and a, b are|DID NOT RAISE"),
    M("quiz-cites-a-heading-that-is-not-there", "docs/hooks/core/quiz.py", 'raise PageError(f"the link {link} leads to no heading of docs/{place.lang}/{name}.")', 'heading = re.match("(.*)", "here")', "tests/test_quiz.py::test_a_malformed_question_is_refused_with_its_file_and_id", "DID NOT RAISE"),
    M("quiz-marks-the-first-choice", "docs/hooks/core/quiz.py", """{" data-right" if "right" in c else ""}""", """{" data-right" if c is question["choices"][0] else ""}""", "tests/test_quiz.py::test_a_good_file_is_rendered_in_the_page_language"),
    M("quiz-example-is-another-number", "docs/quiz/lesson.yml", 'answer: "1,904"', 'answer: "1,804"', "tests/test_quiz.py::test_the_example_without_scripts_is_computed[naive-peak]", "1,804"),
    M("quiz-has-another-formula", "docs/theme/js/quiz.js", "bytes = naiveBytes(B, H, H, S, d), rows", "bytes = naiveBytes(B, H, H, S, d, 4), rows", "tests/test_quiz.py::test_hundreds_of_drawn_shapes_have_the_answers_of_the_labs[naive-peak]"),
    M("quiz-takes-any-number", "docs/theme/js/quiz.js", "off(work.answer) <= within / 100", "off(work.answer) <= within", "tests/test_quiz.py::test_a_number_typed_in_the_page_is_graded_and_its_slip_explained[naive-peak-en]"),
    M("quiz-scores-every-choice", "docs/theme/js/quiz.js", '"right" in li.dataset', '"id" in li.dataset', "tests/test_quiz.py::test_exactly_the_right_choice_scores_and_every_choice_is_explained[en]"),
    M("quiz-shows-the-reason-before-the-answer", "docs/theme/js/quiz.js", "choice.why.hidden = !chosen;", "choice.why.hidden = false;", "tests/test_quiz.py::test_exactly_the_right_choice_scores_and_every_choice_is_explained[zh]", "before the answer"),
    M("quiz-never-changes-its-order", "docs/theme/js/quiz.js", "`${now.seed}/${id}/${now.draws[id] ?? 0}`", "`${id}/${now.draws[id] ?? 0}`", "tests/test_quiz.py::test_order_and_numbers_stand_over_a_reload_and_change_with_a_visit"),

    # Notebooks
    M("notebook-of-another-card", f"{RESULTS}/attention_error.cells.json", '"gpu": "NVIDIA H200"', '"gpu": "NVIDIA H100"', "tests/test_notebooks.py::test_what_is_stored_of_notebooks_is_what_their_cells_gave_once"),
    M("notebook-of-a-changed-tree", f"{RESULTS}/attention_error.cells.json", '"dirty": false', '"dirty": true', "tests/test_notebooks.py::test_it_was_executed_whole_and_says_where_and_when[en-attention_error]"),
    M("notebook-with-a-path-of-its-machine", f"{RESULTS}/attention_error.cells.json", "check: passed", "/root/lab: check: passed", BUILD, "a path"),
    M("notebook-output-edited", f"{RESULTS}/attention_roofline.cells.json", "check: passed", "check: passed.", BUILD, "changed since"),
    M("notebook-is-backdated", f"{RESULTS}/attention_error.cells.json", '"date": "20', '"date": "19', "tests/test_run.py::test_what_was_measured_names_the_commit_of_its_program_and_a_day_after_it", "before its commit"),
    M("notebook-without-the-folder-of-its-lab", "docs/hooks/core/cells.py", "        cells += [_code(f\"{BESIDE}{name}\"", "        [] and [_code(f\"{BESIDE}{name}\"", "tests/test_notebooks.py::test_what_a_lab_loads_from_a_folder_comes_with_its_notebook"),
    M("notebook-forgets-its-program-on-a-comment", "docs/hooks/core/cells.py", '!= identity.identity(programs[f"{lab}.py"], programs)', '!= run["measured"]["seal"]', "tests/test_notebooks.py::test_outputs_go_into_both_languages_and_stay_while_words_and_comments_change"),
    M("notebook-of-another-measurement-has-no-mark", "docs/hooks/core/cells.py", '"stale": run["measured"]["id"] != ', '"stale": None is not None and "" != ', "tests/test_notebooks.py::test_outputs_go_into_both_languages_and_stay_while_words_and_comments_change"),
    M("notebook-shows-other-code", "docs/hooks/core/cells.py", "cells[-1][2] += GAP + code", "cells[-1][2] += GAP + code.rstrip()[:-1]", "tests/test_notebooks.py::test_its_program_is_the_published_file_byte_for_byte"),
    M("result-is-backdated", f"{RESULTS}/attention_error.json", '"started": "20', '"started": "19', "tests/test_run.py::test_what_was_measured_names_the_commit_of_its_program_and_a_day_after_it", "before its commit"),
    M("result-names-another-commit", f"{RESULTS}/attention_error.json", '"commit": "', '"commit": "0', "tests/test_run.py::test_what_was_measured_names_the_commit_of_its_program_and_a_day_after_it", "there is no commit"),
    M("notebook-may-publish-an-error", "docs/hooks/core/cells.py", 'if output["output_type"] == "error":', "if False:", "tests/test_notebooks.py::test_a_published_error_breaks_the_build"),
    M("notebook-warning-names-its-machine", "tools/notebooks.py", r"""re.sub(r"\S*/site-packages/", "", ""","""re.sub(r"^$", "", """,
      "tests/test_notebooks.py::test_a_warning_keeps_its_words_and_loses_this_machine", "site-packages"),
    M("notebook-output-is-dropped-from-its-page", "docs/hooks/core/notebooks.py", "made += [_output(", "made += [] and [_output(", "tests/test_notebooks.py::test_the_page_shows_every_cell_and_output_in_the_sites_own_elements[en-attention_error]"),
    M("notebook-runs-after-an-error", "tools/notebooks.py", 'raised.notebook = json.loads(nbformat.writes(node))\n        raise raised from None', "pass", "tests/test_notebooks.py::test_a_raising_cell_stops_the_run_with_its_message", "DID NOT RAISE"),

    # The content-security policy
    M("policy-lets-inline-scripts-run", "docs/hooks/core/policy.py", "script-src {scripts};", "script-src {scripts} 'unsafe-inline';", "tests/test_policy.py::test_each_inline_script_of_a_page_is_allowed_by_its_hash_and_data_is_not"),
    M("policy-lets-text-become-code", "docs/hooks/core/policy.py", "script-src {scripts};", "script-src {scripts} 'unsafe-eval';", "tests/test_policy.py::test_each_inline_script_of_a_page_is_allowed_by_its_hash_and_data_is_not"),
    M("policy-stands-behind-what-loads", "docs/hooks/core/policy.py", "return page[: charset.end()] + meta + page[charset.end():]", 'return page.replace("</head>", meta + "</head>", 1)', "tests/test_policy.py::test_each_inline_script_of_a_page_is_allowed_by_its_hash_and_data_is_not"),
    M("policy-lets-a-page-write-scripts", "docs/hooks/core/policy.py", 'if name == "script" and text.strip() and not DATA.search(attributes + " "):\n            _refused', 'if name == "skript" and text.strip() and not DATA.search(attributes + " "):\n            _refused', "tests/test_policy.py::test_what_a_page_may_not_contain_is_named", "DID NOT RAISE"),
    M("policy-sees-no-handlers", "docs/hooks/core/policy.py", r'(handler := re.search(r"\s(on[a-z]+)', r'(handler := re.search(r"\s(onn[a-z]+)', "tests/test_policy.py::test_what_a_page_may_not_contain_is_named", "DID NOT RAISE"),
    M("policy-is-not-on-404", "docs/hooks/shim.py", 'return _with_policy(output_content) if template_name.endswith(".html") else output_content', "return output_content", "tests/test_policy.py::test_every_page_has_one_policy_and_only_the_theme_writes_scripts_into_it", "404.html"),
    M("policy-lets-data-go-anywhere", "docs/hooks/core/policy.py", "\"connect-src 'self';", "\"connect-src *;", "tests/test_policy.py::test_what_a_stranger_writes_into_a_page_is_refused[en/glossary/]", "foreign data"),
    M("policy-lets-the-base-move", "docs/hooks/core/policy.py", "base-uri 'none'; ", "", "tests/test_policy.py::test_what_a_stranger_writes_into_a_page_is_refused[en/glossary/]", "base"),

    # Locks
    M("lock-lacks-a-hash", "requirements/site.txt", "asttokens==3.0.2 \\\n    --hash=sha256:3ecdbd8f2cc195f53ccada3a613538bb5f9ef6f6869129f13e03c30a677b8fe2 \\\n    --hash=sha256:9da13157f5b28becde0bd374fc677dcd3c290614264eff096f167c469cd9f933\n", "asttokens==3.0.2\n",
      "tests/test_locked.py::test_a_lock_file_has_every_pin_nothing_extra_and_a_hash_for_each[site]", "asttokens has no hash"),
    M("lock-has-another-version", "requirements/site.txt", "mkdocs==1.6.1", "mkdocs==1.6.0", "tests/test_locked.py::test_a_lock_file_has_every_pin_nothing_extra_and_a_hash_for_each[site]", "mkdocs"),
    M("lock-has-a-package-nobody-asked-for", "requirements/site.txt", "attrs==26.1.0 \\\n", "attrz==1 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via other\nattrs==26.1.0 \\\n", "tests/test_locked.py::test_a_lock_file_has_every_pin_nothing_extra_and_a_hash_for_each[site]", "attrz"),
    M("locks-disagree", "requirements/test.txt", "idna==3.20", "idna==3.19", "tests/test_locked.py::test_all_groups_lock_one_version_of_a_package", "idna"),
    M("make-installs-without-hashes", "Makefile", "--disable-pip-version-check --require-hashes\nwheels", "--disable-pip-version-check\nwheels", "tests/test_locked.py::test_make_installs_nothing_without_hashes_but_torch", "pip install"),
    M("make-builds-from-source", "Makefile", "wheels = --only-binary :all: ", "wheels = ", "tests/test_locked.py::test_make_installs_nothing_without_hashes_but_torch"),
    M("npm-package-without-a-hash", "package-lock.json", '"integrity": "sha512-', '"integrity": "sha1-', "tests/test_locked.py::test_npm_packages_are_locked_by_hash_and_name_no_host[.]", "has no hash"),
    M("npm-lock-is-not-heeded", "Makefile", "@npm ci ", "@npm install ", "tests/test_locked.py::test_make_installs_nothing_without_hashes_but_torch", "npm install"),

    # Search
    M("search-drops-synonyms", "docs/hooks/core/search.py", 'entry["synonyms"] = said', 'entry["words"] = said', "tests/test_search.py::test_each_entry_gets_its_own_words"),
    M("search-takes-synonyms-of-nothing", "docs/hooks/core/search.py", 'if entry is None:\n            raise PageError(', "if entry is None:\n            entry = {}\n        if False:\n            raise PageError(", "tests/test_search.py::test_synonyms_that_lead_nowhere_are_an_error", "DID NOT RAISE"),
    M("search-has-no-field-for-synonyms", "mkdocs.en.yml", " synonyms: { boost: 300 },", "", "tests/test_search.py::test_the_index_holds_words_only", "synonyms"),
    M("search-lacks-a-synonym", "docs/en/lesson.md", "  lab: memory usage VRAM usage", "  lab: memory usage", "tests/test_search.py::test_the_right_page_is_among_the_first_three[en]", "vram"),
    M("search-lacks-a-term", "docs/zh/lesson.md", re.compile(r"\n  score-matrix: .*"), "", "tests/test_search.py::test_a_term_finds_its_section_first[zh]", "lesson#score-matrix"),
    M("search-marks-nothing-on-a-page", "docs/theme/js/site.js", "  hit.href = to;\n", "", "tests/test_search.py::test_the_first_hit_names_what_found_it_and_the_page_marks_it"),
    M("search-takes-two-numbers-for-one", "docs/hooks/shim.py", "        if core.search.WORKER.fullmatch(file.src_uri):", "        if False:", "tests/test_search.py::test_lunr_keeps_two_numbers_apart"),
    M("search-comes-with-the-page", "docs/theme/js/late.js", "if (this.late) asked.then(() => this.fetch()); else send.apply(this, body);", "send.apply(this, body);", "tests/test_budgets.py::test_the_first_visit_of_the_lesson_is_light[en]", "before anybody turned to it"),
    M("search-never-comes", "docs/theme/js/late.js", "[data-toggle=__search]\")) resolve();", "[data-toggle=__search]\")) return;", "tests/test_search.py::test_chinese_without_blanks_and_half_a_word_find_too"),

    # Ring attention
    M("ring-forgets-the-rescale", "examples/ring_attention.py", "    o.mul_((lse - total).exp_().unsqueeze(-1))\n", "", "tests/test_ring_attention.py::test_merge_is_that_of_split_kv"),
    M("ring-keeps-its-old-lse", "examples/ring_attention.py", "    lse.copy_(total)\n", "", "tests/test_ring_attention.py::test_check_accepts_the_ring", "is off by|naive"),
    M("ring-zigzag-sees-the-other-half", "examples/ring_attention.py", "else (late, every, False)", "else (early, every, False)", "tests/test_ring_attention.py::test_every_pair_is_computed_once_and_no_other"),
    M("ring-work-is-not-balanced", "examples/ring_attention.py", "(rank, parts - 1 - rank))]", "(2 * rank, 2 * rank + 1))]", "tests/test_ring_attention.py::test_the_work_of_a_rank"),
    M("ring-makes-a-buffer-too-many", "examples/ring_attention.py", "range(min(2, steps - 1))", "range(2)", "tests/test_ring_attention.py::test_one_buffer_for_two_processes_and_never_more_than_two"),
    M("ring-memory-without-its-accumulators", "examples/ring/formulas.py", "accumulators = 4 * B * heads * s * d + ", "accumulators = 2 * B * heads * s * d + ", "tests/test_ring_attention.py::test_two_gpus_need_the_accumulators_too"),
    M("ring-turns-the-other-way", "examples/ring_attention.py", "behind, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size", "before, behind = (self.rank + 1) % self.size, (self.rank - 1) % self.size", "tests/test_ring_attention.py::test_four_processes"),
    M("ring-does-not-wait-for-its-block", "examples/ring_attention.py", "    for work in works:\n        work.wait()\n", "    return\n", "tests/test_ring_attention.py::test_four_processes"),
    M("ring-least-shard-is-halved", "examples/ring/formulas.py", "/ (2 * group * link))", "/ (4 * group * link))", "tests/test_ring_attention.py::test_the_least_shard_by_trying"),
    M("ring-counts-the-fastest-rank", "examples/ring/clock.py", "[max(ranks) for ranks in samples]", "[min(ranks) for ranks in samples]", "tests/test_ring_attention.py::test_the_slowest_rank_counts"),

    # The calculator
    M("calculator-card-has-another-bandwidth", "docs/hooks/core/calculator.py", '"gbps": 2039', '"gbps": 2093', "tests/test_calculator.py::test_a_card_has_every_number_and_says_where_it_stands"),
    M("calculator-hands-over-another-spread", "docs/hooks/core/calculator.py", 'row["p10_ms"], row["p90_ms"], of', 'row["p90_ms"], row["p10_ms"], of', "tests/test_calculator.py::test_every_measured_row_of_a_shape_is_handed_over_exactly"),
    M("calculator-hands-over-rounded-bytes", "docs/hooks/core/calculator.py", "    if size != int(size):", "    if False:", "tests/test_calculator.py::test_every_measured_row_of_a_shape_is_handed_over_exactly", "DID NOT RAISE"),
    # The reader's own GPU
    M("flash-in-the-browser-does-not-rescale", "examples/webgpu/flash.wgsl", "l *= rescale;", "l *= 1.0;", "tests/test_gpu.py::test_the_editor_names_the_mistake_and_times_what_is_right"),
    M("naive-in-the-browser-is-not-scaled", "docs/theme/js/gpu-attention.js", "d, 1, [scale])", "d, 1, [1])", "tests/test_gpu.py::test_wrong_numbers_memory_that_runs_out_and_a_cap_are_rows_that_say_so"),
    M("gpu-passes-the-announced-memory", "docs/theme/js/gpu-attention.js", "> cap ? largestS(maxBufferSize, H) + 1 : S", "> cap ? S : S", "tests/test_gpu.py::test_a_limit_on_bindings_alone_is_predicted_too"),
    M("gpu-takes-the-default-limits", "docs/theme/js/gpu-device.js", "wanted.map((name)", "[].map((name)", "tests/test_gpu.py::test_bytes_are_as_predicted_values_are_right_and_naive_is_refused_where_the_formula_says[en-False]"),
    M("gpu-hides-wrong-numbers", "docs/theme/js/gpu-attention.js", "if (!(row.rel_err <= TOLERANCE)) row.status", "if (row.rel_err > 1) row.status", "tests/test_gpu.py::test_wrong_numbers_memory_that_runs_out_and_a_cap_are_rows_that_say_so"),
    M("gpu-runs-before-the-button", "docs/hooks/core/gpu.py", 'data-ask="{ask}"', 'data-asks="{ask}"', "tests/test_gpu.py::test_nothing_runs_and_nothing_is_fetched_before_the_button_which_says_what_will_happen[en/gpu/]"),
    M("gpu-goes-on-out-of-sight", "docs/theme/js/gpu-device.js", "if (document.hidden)", "if (false)", "tests/test_gpu.py::test_a_hidden_page_a_stop_and_a_lost_device_end_the_run_and_keep_what_was_measured"),
    M("gpu-keeps-its-device", "docs/theme/js/gpu-device.js", "    this.device.destroy();\n", "", "tests/test_gpu.py::test_the_short_form_refuses_too_and_frees_its_device"),
    M("rungs-drift-apart", "examples/kernels/pipelined.py", "gl.maximum(m, gl.max(s, 1) * scale)", "gl.maximum(m, scale * gl.max(s, 1))", "tests/test_kernels.py::test_what_rungs_share_is_equal[softmax]"),
    M("glue-of-a-layer", "examples/whole_model.py", "10 * turned_width", "8 * turned_width", "tests/test_whole_model.py::test_glue_counts_each_tensor_of_each_kernel"),
    M("whole-model-without-rope", "examples/whole_model.py", "    return x * cos + torch.cat((-b, a), -1) * sin", "    return x * cos", "tests/test_whole_model.py::test_check_accepts_what_runs_here_and_attention_written_out"),
    M("prompt-without-its-cache", "examples/whole_model.py", "    held = cache_bytes(model, 1, S, e) + ", "    held = ", "tests/test_whole_model.py::test_the_peak_of_a_prompt_by_hand"),
    M("time-of-the-model-edited", f"{RESULTS}/whole_model.json", '"part": "prefill", "impl": "none", "B": 1, "S": 4096, "layers_attention_ms": 0.0,', '"part": "prefill", "impl": "none", "B": 1, "S": 4096, "layers_attention_ms": 9.0,', "tests/test_whole_model.py::test_measured_columns_follow_from_times"),
    M("bits-of-one-part-by-another-rule", "examples/batch_invariance.py", "return parts(when, 1, S, sms) == parts(when, B, S, sms)", "return True", "tests/test_batch_invariance.py::test_bits_are_predicted_by_the_parts_that_the_rule_gives"),
    M("neighbours-are-the-request", "examples/batch_invariance.py", "torch.manual_seed(SEED + heads + len(made))", "torch.manual_seed(SEED + B)", "tests/test_batch_invariance.py::test_the_last_sequence_is_the_same_in_every_batch_and_the_others_are_not"),
    M("tiles-by-their-first-row", "examples/mask_savings.py", "touched.update(range(first // Bc, -(-end // Bc)))", "touched.update(range(first // Bc, end // Bc))", "tests/test_mask_savings.py::test_tiles_are_those_that_hold_a_pair[causal]"),
    M("scores-cross-memory-thrice", "examples/kernel_ladder.py", "5 * 2 * B * heads", "3 * 2 * B * heads", "tests/test_kernel_ladder.py::test_predicted_bytes"),
    M("any-unit-bounds-a-kernel", "examples/kernel_ladder.py", "BUSY = 60 ", "BUSY = 0 ", "tests/test_kernel_ladder.py::test_what_bounds_a_kernel"),
    M("beat-compares-by-a-mean", "examples/beat.py", "- true).abs().max()", "- true).abs().mean()", "tests/test_beat.py::test_a_cheat_is_refused[one wrong number]"),
    M("beat-draws-the-same-inputs", "examples/beat.py", "chance.getrandbits(60)", "7", "tests/test_beat.py::test_a_cheat_is_refused[a cached answer]"),
    M("beat-lets-inputs-change", "examples/beat.py", "if any(not torch.equal(x, y)", "if any(x is y", "tests/test_beat.py::test_a_cheat_is_refused[inputs made easy]"),
    M("beat-believes-any-speed", "examples/beat.py", "if not ms >= least:", "if ms < 0:", "tests/test_beat.py::test_faster_than_the_roofline_is_refused"),
    M("a-difference-is-html", "docs/hooks/core/differences.py", "html.escape(line, quote=False)", "line", "tests/test_placeholders.py::test_a_difference_of_two_programs_is_their_changed_lines_escaped"),
    M("gpu-grader-runs-no-threads", "docs/theme/js/gpu-grade.js", "MANY = 256;", "MANY = 1;", "tests/test_gpu.py::test_wrong_kernels_are_refused_and_what_is_wrong_is_named"),
    M("browser-result-claims-cuda", "examples/webgpu/results/schema.json", '"cuda": {"type": "null"}', '"cuda": {"type": ["null", "string"]}', "tests/test_gpu.py::test_a_contributed_file_is_read_and_a_damaged_one_is_named"),

    M("calculator-takes-gb-for-gib", "docs/theme/js/calculator.js", "(v.gib - v.reserve) * 2 ** 30", "(v.gib - v.reserve) * 1e9", "tests/test_calculator.py::test_what_opens_is_the_lessons_shape_by_the_labs_functions[en]"),
    M("calculator-forgets-the-copies-of-k-and-v", "docs/theme/js/calculator.js", "causal) + copies,", "causal),", "tests/test_calculator.py::test_formulas_as_written_give_the_numbers_behind_them"),
    M("calculator-exchanges-the-measured-sides", "docs/theme/js/calculator.js", 'rows.push([words.measured_on({ gpu: mine.gpu }), ...["naive", "flash"]', 'rows.push([words.measured_on({ gpu: mine.gpu }), ...["flash", "naive"]', "tests/test_calculator.py::test_what_was_measured_stands_beside_the_prediction_as_the_json_has_it"),
    M("calculator-answers-nonsense", "docs/theme/js/calculator.js", "return bad.length ? null : values;", "return values;", "tests/test_calculator.py::test_nonsense_is_explained_typed_or_in_the_address[en]", "beside nonsense|Error"),

    # Links into the glossary
    M("glossary-links-every-use", "docs/hooks/core/glossary.py", "if entry.id in done:", "if False:", "tests/test_glossary.py::test_the_first_use_becomes_a_link_where_it_is_prose"),
    M("glossary-leads-to-another-page", "docs/hooks/core/glossary.py", 'href="{address}#{entry.id}"', 'href="{address}#{glossary[0].id}"', "tests/test_glossary.py::test_the_first_use_becomes_a_link_where_it_is_prose"),
    M("glossary-shortest-word-wins", "docs/hooks/core/glossary.py", "sorted(names, key=len, reverse=True)", "sorted(names, key=len)", "tests/test_glossary.py::test_the_longest_word_wins_and_front_matter_says_the_words"),
    M("glossary-word-of-two-entries", "docs/hooks/core/glossary.py", 'if seen.setdefault(name.lower(), match["id"]) != match["id"]:', "if False:", "tests/test_glossary.py::test_a_wrong_front_matter_is_an_error", "DID NOT RAISE"),
    M("glossary-lacks-a-term-of-a-page", "docs/en/vllm.md", "{ #path }\n", "{ #path }\n\nIt uses WGMMB here.\n", "tests/test_glossary.py::test_no_term_is_used_without_an_entry[en]", "WGMMB"),
    M("glossary-is-linked-in-english-only", "docs/hooks/core/page.py", "if address and known:", 'if address and known and place.lang == "en":', "tests/test_glossary.py::test_the_first_use_of_every_term_on_every_page_leads_to_its_entry[zh]"),

    # The checker itself
    M("checker-forgives-dead-anchors", "tools/check_site.py", "elif anchor and file in site.names and anchor not in site.names[file].known:", "elif False:", "tests/test_check_site.py::test_each_breakage_is_found_and_nothing_else[a dead anchor]"),
    M("checker-forgives-raw-tex", "tools/check_site.py", "if match := TEX.search(text):", "if match := None:", "tests/test_check_site.py::test_each_breakage_is_found_and_nothing_else[inline TeX]"),
    M("checker-sees-hosts-with-a-scheme-only", "tools/check_site.py", r"(?:https?:|wss?:|ftp:)?//", r"(?:https?:|wss?:|ftp:)//", "tests/test_check_site.py::test_each_breakage_is_found_and_nothing_else[a picture of another host]"),
    M("checker-forgives-pages-in-one-language", "tools/check_site.py", "for name in sorted(pages - sets[other]):", "for name in []:", "tests/test_check_site.py::test_a_page_in_one_language_is_found"),
    M("checker-is-always-content", "tools/check_site.py", "return 1 if findings else 0", "return 0", "tests/test_check_site.py::test_the_command_prints_a_line_for_each_and_says_so_in_its_status"),
    M("checker-knows-no-budget", "tools/check_site.py", "elif size > kind[2] and", "elif False and", "tests/test_check_site.py::test_a_file_over_its_budget_is_found"),

    # Budgets, and a build that can be repeated
    M("first-visit-fetches-python", "docs/theme/js/late.js", "{\n  const params", "fetch(new URL(\"../../assets/pyodide/python_stdlib.zip\", document.currentScript.src));\n{\n  const params", "tests/test_budgets.py::test_the_first_visit_of_the_lesson_is_light[en]", "budget"),
    M("build-is-dated-by-the-clock", "docs/hooks/shim.py", "return done.stdout.strip()\n", "return str(int(__import__(\"time\").time()))\n", "tests/test_reproducible.py::test_the_date_is_the_commit_s_or_a_fixed_one"),
    M("build-ignores-a-given-date", "docs/hooks/shim.py", 'os.environ.setdefault("SOURCE_DATE_EPOCH", _commit_date())', 'os.environ["SOURCE_DATE_EPOCH"] = _commit_date()', "tests/test_reproducible.py::test_a_date_that_is_given_counts"),
    M("build-depends-on-the-hash-seed", "docs/hooks/core/policy.py", '*dict.fromkeys(found[kind])', '*set(found[kind])', "tests/test_reproducible.py::test_two_builds_of_one_commit_are_equal_byte_for_byte"),
    M("archive-in-the-order-of-the-folder", "docs/hooks/core/archive.py", "for name in sorted(files):", "for name in files:", "tests/test_downloads.py::test_packed_again_it_is_the_same_whatever_the_order_and_the_clock"),

    # Things that changed places, in both languages alike
    both("caption-is-gone", "lesson.md", re.compile(r"(\{\{ drawing\.merge \}\}\n): [^\n]*\n"), r"\1", BUILD, "needs a caption"),
    M("figures-of-a-page-lose-their-numbers", "docs/hooks/core/placeholders.py", "self.numbered += 1", "pass", "tests/test_placeholders.py::test_figures_wait_until_markdown_has_run"),
    M("panel-of-a-drawing-is-lost", "docs/hooks/core/drawings.py", "in zip(rest[::3], rest[1::3], rest[2::3])", "in [rest[:3]]", "tests/test_drawings.py::test_the_panels_of_a_drawing_are_the_drawing[tiling]"),
    M("bars-out-of-scale", "docs/theme/drawings/bytes.svg", 'width="13.3333"', 'width="26.6667"', "tests/test_drawings.py::test_the_bars_of_bytes_are_to_scale"),
    M("panels-never-beside-each-other", "docs/theme/css/figures.css", "flex: 1 1 16rem;", "flex: 1 1 40rem; max-width: none !important;", "tests/test_budgets.py::test_what_lies_far_below_is_laid_out_later_in_a_space_of_its_height[desktop-en]", "higher than the window"),
    both("proofs-stand-open", "lesson.md", re.compile(r"\?\?\? (note|example|info|question)"), r"???+ \1", "tests/test_hard_places.py::test_the_lesson_is_short_and_shows_the_place_is_kept_and_what_is_folded_opens_on_arrival[en]", "screens: fold it"),
    both("a-stretch-without-pictures", "lesson.md", re.compile(r"\{\{ drawing\.(split|packed|intensity) \}\}\n: [^\n]*\n"), "", "tests/test_hard_places.py::test_the_lesson_is_short_and_shows_the_place_is_kept_and_what_is_folded_opens_on_arrival[zh]", "without a picture"),
    both("drawing-in-another-section", "lesson.md", "{{ drawing.merge }}", "{{ drawing.tiling }}", "tests/test_places.py::test_a_drawing_stands_in_its_section[en]"),
    M("drawing-named-as-another", "docs/theme/drawings/merge.svg", 'id="merge-title">{{title}}', 'id="merge-title">{{heading}}', "tests/test_places.py::test_the_name_of_a_drawing_is_its_own", "one title"),
    both("output-of-another-program", "lesson.md", "outputs/tiled_attention.txt", "outputs/split_kv.txt", "tests/test_places.py::test_an_output_stands_under_the_command_that_prints_it[en-lesson.md]", "split_kv.txt is printed by"),
    both("exercise-under-another-heading", "exercises.md", "widget.exercise[name=online_row]", "widget.exercise[name=masked_row]", "tests/test_places.py::test_an_exercise_and_its_solution_stand_under_its_heading[zh]", "masked_row"),
    both("solution-of-another-exercise", "exercises.md", 'title="exercises/online_row.py"}\n    --8<-- "exercises/online_row.py"', 'title="exercises/masked_row.py"}\n    --8<-- "exercises/masked_row.py"', "tests/test_places.py::test_an_exercise_and_its_solution_stand_under_its_heading[en]", "masked_row"),
    both("notebook-under-another-lab", "notebooks.md", "](notebooks/hbm_traffic.ipynb)", "](notebooks/decode_attention.ipynb)", "tests/test_places.py::test_a_notebook_is_linked_under_its_lab[en]"),
    both("table-with-the-filter-of-another", "lesson.md", "rows[part=grid, kv_heads=4, causal=true]", "rows[part=grid, kv_heads=4, causal=false]", "tests/test_places.py::test_no_two_tables_of_a_page_show_the_same_rows[lesson.md]", "kv_heads=4"),
    both("count-in-words-is-wrong", "lesson.md", re.compile(r'(data-count="questions">)[^<]*'), r"\g<1>12", "tests/test_places.py::test_counts_in_words_are_right", r"there are \d+"),
    both("card-that-nobody-measured", "index.md", "NVIDIA H200", "NVIDIA H100", "tests/test_places.py::test_prose_names_cards_labs_shapes_and_functions_that_are_there[en-index.md]", "nobody measured"),
    both("lab-that-is-not-there", "lesson.md", "LAB=flash_vs_naive_memory`", "LAB=flash_vs_naive_memories`", "tests/test_places.py::test_prose_names_cards_labs_shapes_and_functions_that_are_there[zh-lesson.md]", "flash_vs_naive_memories"),
    both("function-that-is-not-there", "lesson.md", "`torch.cuda.set_per_process_memory_fraction`", "`torch.cuda.set_process_memory_fraction`", "tests/test_places.py::test_prose_names_cards_labs_shapes_and_functions_that_are_there[en-lesson.md]", "there is no"),
    both("shape-of-another-model", "index.md", re.compile(r"28 (query heads|个 query 头)"), r"32 \1", "tests/test_places.py::test_prose_names_cards_labs_shapes_and_functions_that_are_there[en-index.md]", "shape of"),
    both("decision-has-the-number-of-another", "decisions.md", "## 0014 ", "## 0013 ", "tests/test_places.py::test_decisions_are_numbered_in_order"),
    both("formula-is-wrong-in-both-languages", "lesson.md", r"\ell_{\text{new}} &= \alpha\, \ell + ", r"\ell_{\text{new}} &= \alpha\, \ell - ", "tests/test_tex.py::test_the_central_formulas_are_those_written_here[the sum]"),
    M("link-to-the-numbers-of-another-lab", "docs/hooks/core/results.py", 'result["url"] = where', 'result["url"] = "examples/results/nvidia-h200/attention_error.json"', "tests/test_placeholders.py::test_a_result_links_to_its_own_file"),
    M("a-test-file-is-left-out", "pyproject.toml", 'addopts = "--markdown-docs -q"', 'addopts = "--markdown-docs -q --deselect tests/test_claims.py"', "tests/test_settings.py::test_the_suite_runs_whole", "deselect"),
    M("a-test-is-collected-and-not-run", "tests/conftest.py", "if whole and left:", "if False:", "tests/test_workers.py::test_a_test_that_never_ran_is_red"),
    M("a-measurement-is-disturbed", "tests/conftest.py", "fcntl.LOCK_EX if alone else", "fcntl.LOCK_SH if alone else", "tests/test_workers.py::test_two_workers_share_one_site_and_leave_the_machine_to_one_that_measures"),
    M("a-worker-is-idle", "Makefile", "--numprocesses $(WORKERS) ", "", "tests/test_settings.py::test_the_suite_runs_whole"),
    M("a-test-is-skipped", "tests/test_claims.py", "def test_decode_memory", "@pytest.mark.skip\ndef test_decode_memory", "tests/test_settings.py::test_the_suite_runs_whole", "test_claims.py"),

    both("number-of-another-section", "decode.md", "[3.2](lesson.md#online-softmax)", "[3.2](lesson.md#tiling)", "tests/test_places.py::test_a_link_that_names_a_number_leads_there[en-decode.md]", "leads to '3.3"),
    both("link-to-another-term", "decode.md", "](glossary.md#kv-cache)", "](glossary.md#hbm)", "tests/test_glossary.py::test_a_written_link_says_a_word_of_its_entry[zh]", "leads to #hbm"),
    M("card-with-the-source-of-another", "docs/words/en.yml", re.compile(r"^(    l4: .*?)\bL4\b", re.M), r"\1A10", "tests/test_calculator.py::test_a_card_has_every_number_and_says_where_it_stands", "l4"),
    M("licence-of-another-package", "THIRD-PARTY.md", "MIT, © Khan Academy and contributors |", "GPL-3.0, © Khan Academy and contributors |", "tests/test_site.py::test_the_licence_of_a_package_is_its_own", "katex"),
    M("language-link-leads-home", "docs/hooks/shim.py", """else page.url.removeprefix('./')}\"""", """else ''}\"""", FINDING, "hreflang"),

    both("pitfall-under-another-heading", "pitfalls.md", 'title="pitfalls/no_rescale.py"}\n--8<-- "pitfalls/no_rescale.py', 'title="pitfalls/masked_row.py"}\n--8<-- "pitfalls/masked_row.py', "tests/test_places.py::test_a_pitfall_and_its_output_stand_under_its_heading[en]", "masked_row"),
    both("widget-runs-another-program", "lesson.md", "{{ widget.run[file=online_softmax.py] }}", "{{ widget.run[file=tiled_attention.py] }}", "tests/test_places.py::test_a_widget_stands_in_its_section[zh]"),
    M("download-holds-other-bytes", "docs/hooks/core/archive.py", "path.read_bytes() for pattern in patterns", "path.read_bytes().replace(b'0.0', b'0.1') for pattern in patterns", "tests/test_downloads.py"),
    M("quiz-tolerance-lets-a-slip-pass", "docs/quiz/lesson.yml", "    within: 1\n", "    within: 3.9\n", "tests/test_quiz.py::test_hundreds_of_drawn_shapes_have_the_answers_of_the_labs", "a slip passes"),
]
QUICK = [mutation for mutation in MUTATIONS if mutation.name in {   # one or two of each kind, in `make test`
    "zh-heading-has-another-id", "zh-shows-other-code", "zh-navigation-lacks-a-page", "numbered-sections-out-of-order", "formula-in-a-heading",
    "fence-without-a-language", "session-that-nobody-runs", "code-of-a-page-is-wrong", "figure-of-arithmetic-retyped",
    "captured-output-edited", "minus-infinity-less-itself", "skeleton-is-not-the-solution-without-its-answer", "grader-online_blocked-tries-less",
    "number-of-a-result-edited", "row-without-its-kernel", "run-does-not-replace-atomically", "labs-start-without-a-gpu",
    "unit-in-a-header-is-not-checked", "table-without-its-provenance", "katex-is-lenient", "formula-changed-by-markdown", "instant-navigation",
    "drawing-too-pale-to-read", "drawing-is-black-in-the-dark", "evidence-place-edited",
    "quiz-another-choice-is-right", "quiz-takes-two-right-answers", "notebook-output-edited", "notebook-warning-names-its-machine", "result-is-backdated", "policy-lets-inline-scripts-run", "policy-lets-a-page-write-scripts",
    "lock-lacks-a-hash", "npm-lock-is-not-heeded", "search-drops-synonyms", "ring-forgets-the-rescale", "calculator-card-has-another-bandwidth", "glossary-links-every-use", "zh-columns-changed-places", "a-claim-in-one-language", "build-is-dated-by-the-clock",
    "drawing-in-another-section", "output-of-another-program", "count-in-words-is-wrong", "formula-is-wrong-in-both-languages", "a-test-is-skipped",
    "strangers-run-with-rights", "a-pipe-hides-a-failure", "warnings-are-silenced",
}]


# How they are run

def nodes(check):
    """A check names one node, or more with a blank and the word tests/ between them."""
    return re.split(r" (?=tests/)", check)


def verdict(place, mutation):
    """What was wrong with the catch, in a line; empty when the mutation was caught. Then the line that the red said."""
    try:
        with place.edited(mutation.edits):
            output, status = place.run(*nodes(mutation.check))
    except LookupError as error:
        return f"no longer applies: {error}", ""
    if status is None:
        return f"{mutation.check} had no end within {SECONDS} s", ""
    if status == 0:
        return f"{mutation.check} stays green", ""
    if mutation.check != BUILD and not (status == 1 and re.search(r"^\d+ failed|ERROR at teardown", output, re.M)):
        return f"{mutation.check} did not fail but broke (status {status}): {last_words(output)}", ""
    if mutation.says and not re.search(mutation.says, output):
        return f"{mutation.check} is red for another reason than {mutation.says!r}: {last_words(output)}", ""
    return "", last_words(output, mutation.says)


def last_words(output, says=""):
    """The line of a failed test or build that says most."""
    lines = output.strip().splitlines() or ["nothing said"]
    red = [line for line in lines if line.startswith("E  ") or re.match(r"ERROR|WARNING|Aborted|FAILED", line)]
    for told in ([line for line in red if re.search(says, line)], [line for line in lines if re.search(says, line)], lines):
        if told:
            return " ".join(told[0].removeprefix("E  ").split())[:160]


def baseline(place, checks):
    """What is red without any mutation, as lines: such a check proves nothing."""
    output, status = place.run(*checks, seconds=1200)
    if status == 0 and not (checks != [BUILD] and re.search(r"\d+ skipped", output.strip().splitlines()[-1])):
        return []
    return ["without a mutation not every check is green:", *([line for line in output.splitlines() if re.match(r"FAILED|ERROR|SKIPPED|E  ", line)][:20] or [last_words(output)])]


def groups(mutations):
    """The checks of these mutations, once each, in lists that are run together."""
    checks = sorted({node for mutation in mutations if mutation.check != BUILD for node in nodes(mutation.check)})
    built = [check for check in checks if re.match(r"tests/test_(site|check_site|search|browser|accessibility|run_widget|stepper|theatre|exercise_widget|calculator|quiz|notebooks|gpu)\.py", check)]
    rest = [check for check in checks if check not in built]
    half = len(built) // 2
    return [group for group in (built[:half], built[half:], rest, [BUILD] * any(mutation.check == BUILD for mutation in mutations)) if group]


def run(mutations, processes=2, check_baseline=True, say=lambda line: None):
    """{name: what was wrong, empty for a catch}, and the lines about checks that are red on their own."""
    def judged(place, job):
        return (None, baseline(place, job), "") if isinstance(job, list) else (job, *verdict(place, job))

    found, red = {}, []
    for job, wrong, said in each([*(groups(mutations) if check_baseline else []), *mutations], judged, processes):
        if job is None:
            red += wrong
            continue
        found[job.name] = wrong
        say(f"NOT caught  {job.name}: {wrong}" if wrong else f"caught      {job.name}: {job.check}: {said}")
    return found, red


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(f"{mutation.name}: {mutation.check}" for mutation in MUTATIONS))
        return 0
    if (mutations := chosen(MUTATIONS, arguments, "mutation")) is None:
        return 2
    begun = time.monotonic()
    found, red = run(mutations, say=lambda line: print(line, flush=True))
    left = [name for name, wrong in found.items() if wrong]
    print("\n".join([*red, f"{len(found) - len(left)} of {len(found)} mutations caught in {time.monotonic() - begun:.0f} s"]))
    if left:
        print("NOT caught: " + ", ".join(sorted(left)))
    return 1 if left or red else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
