#include "core/answer/page/rendered_interactive_page.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/support/run_program.h"

namespace memtune::interactive_page_test {

using namespace memtune;
namespace fs = std::filesystem;

namespace {

constexpr char kViewer[] = "<html><!-- memtune: run --></html>";

// A sweep of one trial with a trace, in a folder whose name would be markup.
struct Run {
  Run() : directory(folder.path / "<b>") {
    fs::create_directories(directory / "trials/1-none");
    sweep::SweepJsonSettingsFactsAndTrials record;
    record.model = "</script><b>";
    record.trials = {{"none", {}, {}, "key", "trials/1-none"}};
    directory.write_record(record);
    write_file(directory / "trials/1-none/trace.mttrace", "a trace");
  }

  test::ScratchFolder folder;
  sweep::RunDirectory directory;
};

}  // namespace

TEST_CASE("a run takes the place of the page's mark and no name of it becomes markup") {
  const Run run;
  const report::RenderedInteractivePage page = report::interactive_page(kViewer, run.directory);
  CHECK(page.text.starts_with("<html><script type=\"application/zlib;base64\" id=\"run\">"));
  CHECK(page.text.ends_with("</script></html>"));
  CHECK(page.text.find("<b>") == std::string::npos);
  CHECK(page.text.find("</script>") == page.text.rfind("</script>"));
  CHECK(page.notes.empty());
}

TEST_CASE("a file that is missing is left out and one that cannot be read is named") {
  const Run run;
  const fs::path trace = run.directory / "trials/1-none/trace.mttrace";
  fs::remove(trace);
  CHECK(report::interactive_page(kViewer, run.directory).notes.empty());
  fs::create_symlink("/etc/hostname", trace);
  const std::vector<std::string> notes = report::interactive_page(kViewer, run.directory).notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("trials/1-none/trace.mttrace is left out: "));
}

TEST_CASE("a page is refused without a run or a mark or if it would be too large for a browser") {
  const Run run;
  CHECK_THROWS_AS(report::interactive_page("<html></html>", run.directory), UsageError);
  CHECK_THROWS_AS(report::interactive_page(kViewer, sweep::RunDirectory(run.folder.path / "nowhere")), UsageError);
  CHECK_THROWS_WITH_AS(report::interactive_page(kViewer, run.directory, 5), doctest::Contains("more than 5 B"),
                       UsageError);
}

}  // namespace memtune::interactive_page_test
