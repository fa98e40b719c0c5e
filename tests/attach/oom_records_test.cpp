// The records of failed allocations: which of them explains the end of a command, and which no shim can have written.
#include <doctest/doctest.h>

#include "core/measure/attach/command.h"
#include "tests/attach/recorded.h"

namespace memtune::oom_records_test {

using namespace memtune;
using namespace memtune::attach;
using memtune::result::TrialOutcome;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

// A failure in the given step, with the request and the time.
std::string failed(int64_t step, int64_t requested, double time_s) {
  return R"({"record": "oom", "time_s": )" + std::to_string(time_s) + R"(, "device": 0, "requested": )" +
         std::to_string(requested) +
         R"(, "limit": 85899345920, "total": 85899345920, "free": 7, "allocated": 2000, "reserved": 3000, "others": null, "phase": "forward", "step": )" +
         std::to_string(step) +
         R"(, "evaluating": false, "expandable": true, "stacks": true, "batch": [1, 2, 3], "largest": [4, 5, 6], "held": [8, 9], "amounts": [3, 4], "held_runs": [5], "start": 60, "runs": 2, "usual_runs": 1, "trainer": "trl", "where": {"file": "a.py", "line": 3, "function": "f", "inner": "g", "text": "x = 1", "bytes": 5, "count": 1}, "parameters": 10, "gradients": 11, "states": 12, "buffers": 13, "rest": 14, "checkpointed": true, "models": [{"name": "M", "bytes": 10, "trained": false, "with_gradients": true}], "lines": [{"file": "b.py", "line": 4, "function": "h", "inner": "", "text": "y", "bytes": 14, "count": 2}]})";
}

std::string append(const std::string& line) { return "printf '%s\\n' '" + line + "' >>$MEMTUNE_ATTACH/10.jsonl; "; }

result::TrialMeasurement measured(const std::string& script, int64_t device_bytes = 0) {
  const test::ScratchFolder folder;
  CommandSettings settings;
  settings.folder = folder.path;
  settings.device_bytes = device_bytes;
  settings.command = {"sh", "-c", tests::kTrain + ("train 10 0 1 3; " + script + "exit 1"), "sh"};
  return measure_command(settings).row.measurement;
}

std::string raised(const std::string& text) {
  return append(R"({"record": "exception", "time_s": 20, "type": "OutOfMemoryError", "text": ")" + text + "\"}");
}

constexpr const char* kTwo = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has";

}  // namespace

TEST_CASE("the last failure of the size that the message names explains the end") {
  const result::TrialMeasurement m = measured(append(failed(1, 2 * kGiB, 9)) + append(failed(4, 2 * kGiB, 11)) +
                                              append(failed(4, 3 * kGiB, 12)) + raised(kTwo));
  CHECK(m.outcome == TrialOutcome::device_oom);
  REQUIRE(m.oom.has_value());
  CHECK(m.oom->step == 4);
  CHECK(m.oom->phase == result::PeakMemoryTrainingPhase::forward);
  CHECK(m.oom->requested_bytes == 2 * kGiB);
  CHECK(m.oom->allocated_bytes == 2000);
  CHECK(m.oom->reserved_bytes == 3000);
  CHECK(m.oom->free_bytes == 7);
  CHECK_FALSE(m.oom->other_processes_bytes.has_value());
  CHECK(m.oom->expandable);
  CHECK(m.oom->largest_batch.positions == 6);
  CHECK(m.oom->held_after_steps == std::vector<int64_t>{8, 9});
  CHECK(m.oom->optimizer_bytes == 12);
  REQUIRE(m.oom->lines.size() == 1);
  CHECK(m.oom->lines[0].count == 2);
  CHECK(m.oom->models.at(0).name == "M");
  CHECK(m.oom->models.at(0).with_gradients);
  CHECK(m.oom->amount_of_steps == std::vector<int64_t>{3, 4});
  CHECK(m.oom->held_before_runs == std::vector<int64_t>{5});
  CHECK(m.oom->start_bytes == 60);
  CHECK(m.oom->runs == 2);
  CHECK(m.oom->usual_runs == 1);
  CHECK(m.oom->checkpointed);
  CHECK(m.oom->trainer == "trl");
  CHECK(m.oom->where.inner == "g");
}

TEST_CASE("memory that the driver refuses while the device has room is pinned memory of the host") {
  const auto with = [](const std::string& figures) {
    return measured(append(R"({"record": "exception", "time_s": 20, "type": "AcceleratorError", )"
                           R"("text": "CUDA error: out of memory")" +
                           figures + "}"));
  };
  const result::TrialMeasurement m = with(R"(, "pinned": 268435456, "free": 8589934592)");
  CHECK(m.outcome == TrialOutcome::host_oom);
  CHECK(m.reason.find("page-locked host memory cannot be had: 256 MiB of it are in use, and 8 GiB are free on the "
                      "device") != std::string::npos);
  CHECK(with(R"(, "pinned": 268435456, "free": 1048576)").outcome == TrialOutcome::device_oom);
  CHECK(with(R"(, "pinned": 0, "free": 8589934592)").outcome == TrialOutcome::device_oom);
  CHECK(with("").outcome == TrialOutcome::device_oom);
}

TEST_CASE("a failure that the script caught explains nothing") {
  CHECK_FALSE(measured(append(failed(1, 3 * kGiB, 9)) + raised(kTwo)).oom.has_value());
  CHECK_FALSE(measured(append(failed(1, 2 * kGiB, 9)) + raised("CUDA error: out of memory")).oom.has_value());
  const result::TrialMeasurement other =
      measured(append(failed(1, 2 * kGiB, 9)) + append(R"({"record": "exception", "type": "KeyError", "text": "x"})"));
  CHECK(other.outcome == TrialOutcome::error);
  CHECK_FALSE(other.oom.has_value());
}

TEST_CASE("without who holds the memory the other figures are kept") {
  std::string line = failed(1, 2 * kGiB, 9);
  line = line.substr(0, line.find(", \"parameters\"")) + "}";
  const result::TrialMeasurement m = measured(append(line) + raised(kTwo));
  REQUIRE(m.oom.has_value());
  CHECK(m.oom->rest_bytes == 0);
  CHECK(m.oom->lines.empty());
}

TEST_CASE("impossible failures are not plausible") {
  const std::string line = failed(1, 2 * kGiB, 9);
  using Change = std::pair<std::string, std::string>;
  for (const Change& change :
       std::vector<Change>{{"\"allocated\": 2000", "\"allocated\": 3001"},
                           {"\"phase\": \"forward\"", "\"phase\": \"sideways\""},
                           {"\"step\": 1", "\"step\": 0"},
                           {"\"free\": 7", "\"free\": -7"},
                           {"\"count\": 2", "\"count\": 0"},
                           {"\"batch\": [1, 2, 3]", "\"batch\": [1]"},
                           {"\"held\": [8, 9]", "\"held\": 8"},
                           {"\"rest\": 14", "\"rest\": 9223372036854775807"},
                           {"\"name\": \"M\"", "\"name\": \"" + std::string(2000, 'x') + "\""}}) {
    const result::TrialMeasurement m = measured(append(with(line, change.first, change.second)) + raised(kTwo));
    CHECK_MESSAGE(m.reason.starts_with("its records are not plausible: a record of kind oom: "), change.second);
  }
  const std::string large = with(line, "\"reserved\": 3000", "\"reserved\": 85899345920");
  CHECK(measured(append(large) + raised(kTwo), 40 * kGiB).reason ==
        "its records are not plausible: an allocation in step 1 failed with 80 GiB reserved, and there are 40 GiB "
        "on a device");
  CHECK(measured(append(large) + raised(kTwo), 80 * kGiB).oom.has_value());
}

}  // namespace memtune::oom_records_test
