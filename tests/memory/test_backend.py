"""Memory of results: what was freed is used again."""

import platform
import resource

from tests.support import T


def test_large_temporaries_cost_no_page_faults() -> None:
    if platform.libc_ver()[0] != "glibc":  # only there it can be asked for
        return
    a = T.ones(1_000_000, dtype=T.float64)
    faults = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        (a * a) * (a + a)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert min(faults) < 200  # the three results have 5859 pages of 4 KB
