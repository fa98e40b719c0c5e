#include "core/trial/saver.h"

#include "core/base/error.h"

namespace memtune::trial {
namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void Saver::save(const std::vector<double>& losses) {
  const auto start = Clock::now();
  look(true);
  auto snapshot = std::make_shared<const Snapshot>(state_.snapshot(losses, asynchronous_));
  const auto policy = asynchronous_ ? std::launch::async : std::launch::deferred;
  on_its_way_ = std::async(policy, [this, snapshot, start] { return write(*snapshot, start); });
  if (!asynchronous_) on_its_way_.wait();
  blocked_ms_ = ms_since(start);
  look(!asynchronous_);
}

void Saver::look(bool wait) {
  if (!on_its_way_.valid()) return;
  if (!wait && on_its_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  result::SavedStep save = on_its_way_.get();
  save.blocked_ms = blocked_ms_;
  ended_(save);
}

result::SavedStep Saver::write(const Snapshot& snapshot, Clock::time_point start) {
  result::SavedStep save;
  save.step = snapshot.step;
  try {
    save.bytes = trial::write(snapshot, folder_);
    save.durable_ms = ms_since(start);
    folder_.keep_last(keep_last_);
  } catch (const IoError& error) {
    save.error = error.what();
  }
  return save;
}

}  // namespace memtune::trial
