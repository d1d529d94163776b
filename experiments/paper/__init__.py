"""The paper's evaluation, table by table and figure by figure: what `accams reproduce` runs.

A *study* is one table or figure. It names its *runs* (one fit of one method each), which are done one after another and
kept, so that a study that was stopped goes on where it was; then it shows what came out as CSV, figure and page.
"""
