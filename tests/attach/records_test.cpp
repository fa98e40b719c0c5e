// Record files are read while they grow, whatever else is written to the folder.
#include "core/measure/attach/records.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "tests/attach/recorded.h"

namespace memtune::records_test {

using namespace memtune;
using namespace memtune::attach;
using memtune::tests::add_line;
using memtune::tests::kProcess;

TEST_CASE("records are read as they arrive and an incomplete line waits") {
  const test::ScratchFolder place;
  RecordFolderReader folder(place.path);
  CHECK_FALSE(folder.poll());
  add_line(place.path / "7.jsonl", std::string(kProcess) + "\n" + R"({"record": "step", "step": 1, "phase": "warm)");
  CHECK(folder.poll());
  REQUIRE(folder.processes().size() == 1);
  CHECK(folder.processes()[0].rank == 1);
  CHECK(folder.processes()[0].world == 2);
  CHECK(folder.processes()[0].steps.empty());
  add_line(place.path / "7.jsonl", R"(up", "loss": [1.5, null], "allocated": 7, "save_ms": 0.0})"
                                   "\n");
  CHECK(folder.poll());
  REQUIRE(folder.processes()[0].steps.size() == 1);
  const StepRecord& step = folder.processes()[0].steps[0];
  CHECK(step.number == 1);
  CHECK(step.allocated_bytes == 7);
  CHECK_FALSE(step.ms.has_value());
  REQUIRE(step.losses.size() == 2);
  CHECK(step.losses[0] == 1.5);
  CHECK(std::isnan(step.losses[1]));
  CHECK_FALSE(folder.poll());
}

TEST_CASE("rows and tokens of a step are read and an inconsistent line is skipped") {
  const test::ScratchFolder place;
  add_line(
      place.path / "7.jsonl",
      R"({"record": "process", "pid": 7, "rank": 0, "world": 1, "cuda": false, "device": "", "torch": "2.11", "python": "3.11", "data": 5})"
      "\n"
      R"({"record": "step", "step": 1, "phase": "measured", "loss": [], "batches": 2, "rows": [4, 4], "tokens": [0, 80], "positions": [0, 90]})"
      "\n"
      R"({"record": "step", "step": 2, "phase": "measured", "loss": [], "rows": [4], "tokens": []})"
      "\n");
  RecordFolderReader folder(place.path);
  folder.poll();
  const TrainingProcessRecords& records = folder.processes()[0];
  CHECK(records.data == 5);
  REQUIRE(records.steps.size() == 1);
  CHECK(records.steps[0].batches == 2);
  CHECK(records.steps[0].tokens == std::vector<int64_t>{0, 80});
  CHECK(records.steps[0].positions == std::vector<int64_t>{0, 90});
}

TEST_CASE("foreign lines and invalid numbers and other files are skipped") {
  const test::ScratchFolder place;
  for (const char* line :
       {"hello\n", "[1]\n", "{\"record\": \"step\"}\n", "{\"record\": 3}\n", "\n",
        R"({"record": "step", "step": -1, "phase": "measured", "loss": []})"
        "\n",
        R"({"record": "trace", "file": "../../etc/passwd", "steps": 2, "start_ns": 0, "blocks": [], "regions": []})"
        "\n",
        R"({"record": "save", "step": 1, "ms": 2, "bytes": 4611686018427387904})"
        "\n",
        R"({"record": "done"})"
        "\n"})
    add_line(place.path / "1.jsonl", line);
  std::ofstream(place.path / "2.txt") << "x";
  REQUIRE(::mkfifo((place.path / "3.jsonl").c_str(), 0600) == 0);
  std::filesystem::create_symlink("/dev/zero", place.path / "4.jsonl");
  RecordFolderReader folder(place.path);
  folder.poll();
  REQUIRE(folder.processes().size() == 3);
  CHECK(folder.processes()[0].steps.empty());
  CHECK(folder.processes()[0].done);
  REQUIRE(folder.processes()[0].trace.has_value());
  CHECK(folder.processes()[0].trace->file.empty());
  CHECK(folder.processes()[0].saves.empty());
  CHECK_FALSE(folder.processes()[1].done);
}

TEST_CASE("the first record that no shim writes is reported with its field and other lines are skipped") {
  const auto refused = [](const std::string& line) {
    const test::ScratchFolder place;
    add_line(place.path / "1.jsonl", R"({"record": "step", "step": 3, "phase": "measured", "ms": 5, "loss": []})"
                                     "\n" +
                                         line + "\n");
    RecordFolderReader folder(place.path);
    folder.poll();
    CHECK(folder.processes()[0].steps.size() == 1);
    return folder.processes()[0].refused;
  };
  const auto step = [&](const std::string& fields, int number = 4) {
    return refused(R"({"record": "step", "phase": "measured", "loss": [], "step": )" + std::to_string(number) + ", " +
                   fields + "}");
  };
  CHECK(step(R"("ms": -1)") == "a record of kind step: ms: -1 is no number from 0.0 to 1e+15");
  CHECK(step(R"("ms": 1e308)").find("ms: 1e+308 is no number") != std::string::npos);
  CHECK(step(R"("optimizer_ms": "x")").find("optimizer_ms: ") != std::string::npos);
  CHECK(step(R"("save_ms": -0.5)").find("save_ms: ") != std::string::npos);
  for (const char* field : {"allocated", "reserved", "device", "batches"})
    CHECK(step("\"" + std::string(field) + "\": 9223372036854775807").find(field) != std::string::npos);
  CHECK(step(R"("rows": [9223372036854775807], "tokens": [1])").find("no whole number") != std::string::npos);
  CHECK(step(R"("ms": 5)", 3) == "a record of kind step: step: 3 is no whole number from 4 to 9007199254740992");
  CHECK(refused(R"({"record": "save", "step": 1, "ms": 1e300, "bytes": 1})").find("ms: ") != std::string::npos);
  CHECK(refused(R"({"record": "trace", "file": "", "steps": 4294967297, "start_ns": 1, "blocks": [], "regions": []})")
            .find("steps: ") != std::string::npos);
  for (const char* line : {"hello", "[1]", "{\"record\": 3}", "{\"record\": \"step\", \"st", "{\"record\": \"mine\"}"})
    CHECK(refused(line).empty());
}

TEST_CASE("marker files show whether Python and torch started and a removed folder is no error") {
  RecordFolderReader gone("/no/such/folder");
  CHECK_FALSE(gone.poll());
  const test::ScratchFolder place;
  RecordFolderReader folder(place.path);
  folder.poll();
  CHECK_FALSE(folder.python_started());
  std::ofstream(place.path / "python");
  folder.poll();
  CHECK(folder.python_started());
  CHECK_FALSE(folder.torch_started());
}

TEST_CASE("regions of traced steps are read and an invalid region rejects the trace") {
  const test::ScratchFolder place;
  const auto trace_with = [&](const std::string& name, const std::string& region) {
    add_line(place.path / name, R"({"record": "trace", "file": "", "steps": 2, "start_ns": 70, "blocks": ["a", "b"], )"
                                R"("regions": [["block", "recompute", 1, 5, 8], )" +
                                    region + "]}\n");
  };
  trace_with("0.jsonl", R"(["step", "forward", -1, 5, 9])");
  int file = 1;
  for (const char* bad :
       {R"(["block", "forward", 2, 5, 9])", R"(["block", "forward", -1, 5, 9])", R"(["head", "forward", 0, 5, 9])",
        R"(["step", "forward", -1, 9, 5])", R"(["step", "sideways", -1, 5, 9])", R"(["none", "forward", -1, 5, 9])",
        R"(["step", "forward", -1, 5, 4611686018427387904])", R"(["step", "forward", -1, -5, 9])", R"(["step"])"})
    trace_with(std::to_string(file++) + ".jsonl", bad);
  RecordFolderReader folder(place.path);
  folder.poll();
  REQUIRE(folder.processes().size() == 10);
  int read = 0;
  for (const TrainingProcessRecords& each : folder.processes()) {
    if (!each.trace) continue;
    ++read;
    CHECK(each.trace->start_ns == 70);
    REQUIRE(each.trace->regions.size() == 2);
    CHECK(each.trace->regions[0].region == trace::TraceRegionKey::of_block(1, trace::Pass::recompute));
    CHECK(each.trace->regions[1].end_ns == 9);
  }
  CHECK(read == 1);
}

}  // namespace memtune::records_test
