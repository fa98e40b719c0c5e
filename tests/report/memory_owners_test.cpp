// Who held the memory of a command's step: the table, the texts and the flame graph.
#include "core/answer/report/memory_owners.h"

#include <doctest/doctest.h>

#include "core/answer/report/chart/flame_graph.h"
#include "core/answer/report/html/html.h"
#include "core/answer/report/text/table.h"

namespace memtune::memory_owners_test {

using namespace memtune;
using namespace memtune::report;
using memtune::result::MemoryOfCallPath;
using memtune::result::StepMemoryBreakdown;
using memtune::result::StepMemoryCategory;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

StepMemoryBreakdown memory() {
  StepMemoryBreakdown m;
  m.step = 9;
  m.phase = result::PeakMemoryTrainingPhase::backward;
  m.owners = {{StepMemoryCategory::parameters, 2 * kGiB, 2 * kGiB, 2 * kGiB},
              {StepMemoryCategory::logits, 0, 6 * kGiB, 0},
              {StepMemoryCategory::optimizer, 4 * kGiB, 4 * kGiB, 4 * kGiB}};
  m.lines = {{"/x/model.py", 7, "forward", "cross_entropy", "loss = f(x)", 6 * kGiB, 3}};
  m.modules = {{"layers.*.mlp", 3 * kGiB, kGiB, 12}};
  return m;
}

Report report_of(int rows) {
  Report report;
  for (int i = 0; i < rows; ++i) {
    result::TrialResultRow row;
    row.measurement.strategy = "variant" + std::to_string(i);
    row.measurement.memory = memory();
    row.command = {"python", "train.py"};
    report.rows.push_back(row);
  }
  return report;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("owners are sorted by the peak and have a sum") {
  const std::vector<TableColumn> columns = owner_columns(memory());
  std::string text = heads_text(columns);
  for (size_t i = 0; i < 4; ++i) text += row_text(columns, i);
  CHECK(text ==
        " memory of         before    peak    share  after\n"
        " logits and loss      0 B   6 GiB   50.0 %    0 B\n"
        " optimizer states   4 GiB   4 GiB   33.3 %  4 GiB\n"
        " parameters         2 GiB   2 GiB   16.7 %  2 GiB\n"
        " sum                6 GiB  12 GiB  100.0 %  6 GiB\n");
  CHECK(owner_title(memory()) == "Memory of step 9 by owner, peak in backward");
  CHECK(owner_texts(memory()) ==
        std::vector<std::string>{"Modules: layers.*.mlp (12) 3 GiB, activations 1 GiB.",
                                 "Beside what lasts, most by: model.py:7 (forward) `loss = f(x)` 6 GiB in 3 blocks."});
}

TEST_CASE("what is not known is said") {
  StepMemoryBreakdown m = memory();
  m.saved_only = true;
  m.complete = false;
  m.phase = result::PeakMemoryTrainingPhase::forward;
  CHECK(owner_title(m) == "Memory of step 9 by owner");
  CHECK(owner_texts(m).size() == 4);
  CHECK(owner_columns(m)[2].head == "before backward");
}

TEST_CASE("a table has the memory of the recommended row or of the only one") {
  CHECK(table(report_of(1), {}).find("logits and loss") != std::string::npos);
  Report two = report_of(2);
  CHECK(table(two, {}).find("logits and loss") == std::string::npos);
  two.rows[1].recommended = true;
  CHECK(table(two, {}).find("logits and loss") != std::string::npos);
}

TEST_CASE("texts of a step's memory cannot control a terminal") {
  Report report = report_of(1);
  result::StepMemoryBreakdown& m = *report.rows[0].measurement.memory;
  m.modules[0].name = m.lines[0].file = m.lines[0].text = m.lines[0].function = "\x1b[2Jx\ny";
  CHECK(table(report, {}).find('\x1b') == std::string::npos);
}

TEST_CASE("a page has the memory of the traced trials with a flame graph") {
  const Report report = report_of(1);
  const trace::Trace trace;
  for (const trace::Trace* read : {&trace, static_cast<const trace::Trace*>(nullptr)}) {  // or no trace could be read
    const TrialWithTraceForMemoryChart traced{&report.rows[0], read, {{{"logits", "a.py:1:<f>"}, 4}}};
    const std::string page = html(report, {&traced, 1});
    CHECK(page.find("Memory of step 9 by owner, peak in backward") != std::string::npos);
    CHECK(page.find("a.py:1:&lt;f&gt;") != std::string::npos);
    CHECK(page.find("optimizer states") != std::string::npos);
  }
}

TEST_CASE("a flame graph has a bar for each part that can be seen") {
  CHECK(flame_graph({}).empty());
  const std::string graph =
      flame_graph({{{"activations", "train.py:1:main", "module.py:5:_call_impl", "model.py:2:forward"}, 600},
                   {{"activations", "train.py:1:main", "model.py:9:forward"}, 300},
                   {{"logits", "<non-python>"}, 99},
                   {{"other", "tiny.py:1:f"}, 1}});
  CHECK(count_of(graph, "<rect") == 7);
  CHECK(graph.find("sum 1000 B, 100.0 %") != std::string::npos);
  CHECK(graph.find("train.py:1:main 900 B, 90.0 %") != std::string::npos);
  CHECK(graph.find("_call_impl") == std::string::npos);
  CHECK(count_of(graph, "class=\"s2") == 4);  // activations and what they call
  CHECK(graph.find("width=\"639.5\"") != std::string::npos);
  CHECK(flame_graph({{{"activations"}, 100000}, {{"other"}, 1}}).find("other 1 B") == std::string::npos);
  std::vector<std::string> deep(150, "a.py:1:f");
  CHECK(count_of(flame_graph({{deep, 5}}), "<rect") == 28);
}

}  // namespace memtune::memory_owners_test
