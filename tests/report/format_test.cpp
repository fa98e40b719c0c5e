// The command line, the file names and the hints of every format come from one table: what it says has to hold.
#include "core/report/format.h"

#include <doctest/doctest.h>

#include <set>

#include "core/base/error.h"
#include "tests/report/made_up_trace.h"
#include "tests/report/sample.h"

using namespace memtune;
using report::Format;
using report::Shown;

TEST_CASE("every format has a name of its own and writes something of a sweep and its traces") {
  const report::Report report = report::sample_report();
  const trace::Trace trace = test::made_up_trace("none", 2, 1);
  const std::vector<report::TracedTrial> traced = {{&report.rows[3], &trace}};
  std::set<std::string> names;
  for (const Format& format : report::formats()) {
    CAPTURE(format.name);
    CHECK(names.insert(format.name).second);
    CHECK(report::find_format(format.name).name == std::string(format.name));
    Shown shown{report, {}, {}, nullptr};
    if (format.shows_memory) shown.traced = traced;
    if (format.per_trial) shown.trace = &trace;
    CHECK(format.write(shown).size() > 20);
  }
}

TEST_CASE("what is not for terminals has a file to go to, and only that is not text") {
  const report::Report report = report::sample_report();
  const trace::Trace trace = test::made_up_trace("none", 2, 1);
  for (const Format& format : report::formats()) {
    CAPTURE(format.name);
    const std::string text = format.write({report, {}, {}, &trace});
    CHECK((text.find('\0') != std::string::npos) == format.binary);
    if (format.binary) CHECK(*format.default_file);
  }
}

TEST_CASE("an unknown format is refused with those that there are") {
  CHECK_THROWS_WITH_AS(report::find_format("tabel"), doctest::Contains("unknown format 'tabel'; did you mean 'table'?"),
                       UsageError);
}
