#include "core/engine/state/state_saver.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/scoped_timer.h"
#include "core/engine/state/rank_parts.h"
#include "core/engine/state/write.h"

namespace memtune::state {
namespace {

using device::StreamKind;
using result::SingleStateSaveRecord;

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
// One sixth of a state is copied before activations are offloaded. A PCIe link is about twenty times as fast as a disk,
// so this keeps the disk busy until the backward and costs the forward little.
constexpr int64_t kHeadStart = 6;
constexpr size_t kMaxPortions = size_t{1} << 32;  // of a snapshot

// Losses and optimizer state make later states larger.
int64_t with_slack(int64_t bytes) { return bytes + bytes / 64 + (int64_t{1} << 20); }

// If no thread can be started, the thread that waits for the result does the work.
std::future<SingleStateSaveRecord> in_background(const std::function<SingleStateSaveRecord()>& work) try {
  return std::async(std::launch::async, work);
} catch (const std::system_error&) {
  return std::async(std::launch::deferred, work);
}

}  // namespace

StateSaver::StateSaver(device::Device& device, SavedStatesFolder& folder, StateSaveModeAndRetentionSettings settings,
                       std::function<void(const SingleStateSaveRecord&)> ended)
    : device_(device), folder_(folder), settings_(std::move(settings)), ended_(std::move(ended)) {}

StateSaver::~StateSaver() {
  for (const Flight& flight : flights_)
    if (flight.snapshot) flight.snapshot->abandon();
  for (const Flight& flight : flights_) flight.end.wait();
}

void StateSaver::prepare(int64_t bytes, int64_t budget_bytes) {
  if (!slabs_.empty()) return;
  budget_bytes_ = budget_bytes;
  if (settings_.how == "sync") return prepare_buffer(bytes);
  const int64_t image = with_slack(bytes);
  if (image > budget_bytes)
    throw UsageError("a copy of the state takes " + format_bytes(image) + " of host memory, and there are " +
                     format_bytes(budget_bytes) + " for it; --save sync needs " + format_bytes(kMinBufferBytes));
  slabs_.push_back(allocate(image));
  most_host_bytes_ = image <= budget_bytes / 2 ? 2 * image : image;
}

void StateSaver::prepare_buffer(int64_t bytes) {
  const int64_t whole = (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  most_host_bytes_ = std::min(std::clamp(whole, kMinBufferBytes, kBufferBytes), budget_bytes_);
  if (most_host_bytes_ < kMinBufferBytes)
    throw UsageError("a save takes " + format_bytes(kMinBufferBytes) + " of host memory, and there are " +
                     format_bytes(budget_bytes_) + " for it");
  slabs_.push_back(allocate(most_host_bytes_));
}

std::unique_ptr<device::HostBuffer> StateSaver::allocate(int64_t bytes) {
  try {
    return device_.allocate_host(bytes);
  } catch (const OutOfHostMemoryError&) {
    pinned_ = false;  // now copies block the caller, which is measured
    return device_.allocate_host(bytes, /*pinned=*/false);
  }
}

void StateSaver::save(int64_t step, std::vector<TensorToSave> parts, Clock::time_point start) {
  look(false);
  if (settings_.how == "sync") return save_waiting(step, parts, start);
  try {
    Flight flight = start_snapshot(step, std::move(parts), start);
    flight.blocked_ms = ms_since(start);
    flights_.push_back(std::move(flight));
  } catch (const OutOfHostMemoryError& error) {
    fail(step, error.what(), ms_since(start));
  }
}

void StateSaver::fail(int64_t step, const std::string& why, double blocked_ms) {
  if (folder_.rank().rank > 0) publish_failure(folder_, step, why);
  ended_({step, blocked_ms, 0, 0, why});
}

StateSaver::Flight StateSaver::start_snapshot(int64_t step, std::vector<TensorToSave> parts, Clock::time_point start) {
  Flight flight;
  flight.image = &free_image(bytes_of(parts));
  flight.snapshot = std::make_unique<AsyncHostStateSnapshot>(device_, step, std::move(parts), *flight.image, pinned_);
  flight.snapshot->release_sources();  // sources that were cloned for it
  if (settings_.how == "async") {
    flight.snapshot->wait();
    flight.snapshot->confirm();
    flight.snapshot->release_sources();
  } else {
    flight.snapshot->send(settings_.activations_first ? flight.snapshot->bytes() / kHeadStart : kAll);
  }
  const auto earlier = flights_.empty() ? std::shared_future<SingleStateSaveRecord>() : flights_.back().end;
  const AsyncHostStateSnapshot& snapshot = *flight.snapshot;
  flight.end = in_background([this, &snapshot, step, start, earlier] {
    if (earlier.valid()) earlier.wait();
    return retain(write(step, start, [&] { return state::write(snapshot, folder_); }));
  });
  return flight;
}

void StateSaver::save_waiting(int64_t step, const std::vector<TensorToSave>& parts, Clock::time_point start) {
  look(true);
  const SingleStateSaveRecord save =
      write(step, start, [&] { return state::write(device_, step, parts, *slabs_.front(), folder_); });
  Flight flight;
  flight.blocked_ms = ms_since(start);
  flight.end = in_background([this, save] { return retain(save); });
  flights_.push_back(std::move(flight));
  look(settings_.keep_last == 0);
}

SingleStateSaveRecord StateSaver::write(int64_t step, Clock::time_point start, const std::function<int64_t()>& write) {
  SingleStateSaveRecord save;
  save.step = step;
  try {
    save.bytes = write();
    save.durable_ms = ms_since(start);
  } catch (const IoError& error) {
    save.error = error.what();
    if (folder_.rank().rank > 0) publish_failure(folder_, step, save.error);
  }
  return save;
}

// Removes older states in parallel with training: a disk may take half as long for that as for a save.
SingleStateSaveRecord StateSaver::retain(SingleStateSaveRecord save) {
  if (!save.error.empty() || folder_.rank().rank > 0) return save;
  try {
    folder_.keep_last(settings_.keep_last);
  } catch (const IoError& error) {
    save.error = error.what();
  }
  return save;
}

// Allocates another image, or waits for the save that ends first.
void StateSaver::wait_for_free_image() {
  const int64_t image = slabs_.front()->bytes();
  if (host_bytes() + image <= most_host_bytes_ && image <= available_memory_bytes()) try {
      slabs_.push_back(allocate(image));
      return;
    } catch (const OutOfHostMemoryError&) {
      most_host_bytes_ = host_bytes();
    }
  end_first();
}

device::HostBuffer& StateSaver::free_image(int64_t bytes) {
  if (flights_.size() == slabs_.size()) wait_for_free_image();
  const auto is_free = [&](const auto& slab) {
    return std::ranges::none_of(flights_, [&](const Flight& flight) { return flight.image == slab.get(); });
  };
  auto& slab = *std::ranges::find_if(slabs_, is_free);
  if (!slab || slab->bytes() < bytes) {
    slab.reset();
    if (with_slack(bytes) > budget_bytes_ - host_bytes())
      throw OutOfHostMemoryError("the state has grown to " + format_bytes(bytes) +
                                 ", for which host memory has no room");
    slab = allocate(with_slack(bytes));
    most_host_bytes_ = std::max(most_host_bytes_, host_bytes());
  }
  return *slab;
}

// If memory is not page-locked, the copies block the caller.
void StateSaver::send(Flight& flight) {
  if (flight.snapshot->sent()) return;
  const auto start = Clock::now();
  flight.snapshot->send();
  flight.blocked_ms += ms_since(start);
}

void StateSaver::begin_backward() {
  for (Flight& flight : flights_) {
    if (!flight.snapshot) continue;
    send(flight);
    flight.snapshot->confirm();
  }
}

size_t StateSaver::turn(const void* memory) {
  for (size_t i = flights_.size(); i-- > 0;) {  // a later save is copied later
    if (!flights_[i].snapshot) continue;
    send(flights_[i]);
    if (const size_t portions = flights_[i].snapshot->pending(memory)) return i * kMaxPortions + portions;
  }
  return 0;
}

void StateSaver::await(size_t turn) {
  if (turn == 0) return;
  Flight& flight = flights_[turn / kMaxPortions];
  const device::EventPtr begin = device_.record_timed(StreamKind::compute);
  device_.wait(StreamKind::compute, flight.snapshot->left(turn % kMaxPortions));
  flight.stalls.push_back({begin, device_.record_timed(StreamKind::compute)});
}

void StateSaver::look(bool wait) {
  for (const Flight& flight : flights_)
    if (flight.snapshot) flight.snapshot->release_sources();
  const auto has_ended = [](const Flight& flight) {
    return flight.end.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!flights_.empty() && (wait || has_ended(flights_.front()))) end_first();
}

void StateSaver::end_first() {
  Flight& flight = flights_.front();
  if (flight.snapshot) {
    send(flight);
    flight.snapshot->confirm();  // no forward ran since, or it is over
  }
  SingleStateSaveRecord save = flight.end.get();
  save.blocked_ms = blocked_ms(flight);
  flights_.pop_front();
  ended_(save);
}

double StateSaver::blocked_ms(const Flight& flight) {
  double ms = flight.blocked_ms;
  for (const Stall& stall : flight.stalls) {
    stall.end->synchronize();
    ms += stall.end->ms_since(*stall.begin);
  }
  return ms;
}

int64_t StateSaver::host_bytes() const {
  int64_t bytes = 0;
  for (const auto& slab : slabs_) bytes += slab ? slab->bytes() : 0;
  return bytes;
}

}  // namespace memtune::state
