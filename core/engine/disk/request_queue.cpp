#include "core/engine/disk/request_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace memtune::disk {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEmptyResults = 100;  // consecutive interruptions and empty results

bool passing(int64_t error) { return error == EINTR || error == EAGAIN; }

// The rest of `transfer` after `moved` bytes.
IoSubmission rest_of(const IoSubmission& transfer, int64_t moved) {
  return {transfer.kind, transfer.offset + moved, transfer.data + moved, transfer.bytes - moved};
}

}  // namespace

bool DiskTransferCompletionHandle::done() const {
  std::lock_guard lock(mutex_);
  return jobs_left_ == 0;
}

void DiskTransferCompletionHandle::wait() const {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return jobs_left_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void DiskTransferCompletionHandle::start() {
  std::lock_guard lock(mutex_);
  if (started_ == Clock::time_point()) started_ = Clock::now();
}

void DiskTransferCompletionHandle::finish(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    if (--jobs_left_ > 0) return;
    ended_ = Clock::now();
  }
  finished_.notify_all();
}

void FirstIoFailureLatch::note(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

void FirstIoFailureLatch::rethrow() const {
  std::unique_lock lock(mutex_);
  const std::exception_ptr error = error_;
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

RequestQueue::RequestQueue(const DirectOrBufferedIoFile& file, std::unique_ptr<AsyncFileIo> io, int depth,
                           FirstIoFailureLatch& failure)
    : file_(file), io_(std::move(io)), failure_(failure), places_(static_cast<size_t>(depth)) {
  finisher_ = std::thread([this] { finish_jobs(); });
  try {
    starter_ = std::thread([this] { start_jobs(); });
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      all_started_ = true;
    }
    flight_came_.notify_one();
    finisher_.join();
    throw;
  }
}

RequestQueue::~RequestQueue() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  job_came_.notify_one();
  starter_.join();
  finisher_.join();
}

void RequestQueue::push(Job job) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  job_came_.notify_one();
}

DiskQueueThroughputStats RequestQueue::traffic() const {
  std::lock_guard lock(mutex_);
  DiskQueueThroughputStats traffic = traffic_;
  if (flying_ > 0) traffic.busy += Clock::now() - busy_since_;
  return traffic;
}

// --- the starting thread ---

void RequestQueue::start_jobs() {
  for (Job job; next(job);) {
    try {
      failure_.rethrow();
      if (job.prepare) job.prepare();
    } catch (...) {
      failure_.note(std::current_exception());
      end(std::move(job), std::current_exception());
      continue;
    }
    start(std::move(job));
  }
  {
    std::lock_guard lock(mutex_);
    all_started_ = true;
  }
  flight_came_.notify_one();
}

bool RequestQueue::next(Job& job) {  // false: closed and all jobs started
  std::unique_lock lock(mutex_);
  job_came_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
  if (waiting_.empty()) return false;
  job = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

void RequestQueue::start(Job job) {
  const size_t place = take_place(std::move(job));
  at(place).job.request->start();
  try {
    failure_.rethrow();  // a failure while this job waited
    submit(place);
  } catch (...) {
    return land(place, std::current_exception());
  }
  // Counted only after a successful submit. The other thread may already have reaped this transfer in place of another
  // one; it reaps as many as are counted here.
  count_flights(+1);
}

size_t RequestQueue::take_place(Job job) {
  std::unique_lock lock(mutex_);
  auto place = places_.end();
  place_came_free_.wait(lock,
                        [&] { return (place = std::find(places_.begin(), places_.end(), nullptr)) != places_.end(); });
  *place = std::make_unique<Flight>();
  (*place)->job = std::move(job);
  return static_cast<size_t>(place - places_.begin());
}

// --- the finishing thread ---

void RequestQueue::finish_jobs() {
  while (await_flight()) {
    if (arrive(io_->reap())) count_flights(-1);
  }
}

bool RequestQueue::await_flight() {  // false: no more will come
  std::unique_lock lock(mutex_);
  flight_came_.wait(lock, [this] { return flying_ > 0 || all_started_; });
  return flying_ > 0;
}

// Returns false if the transfer was submitted again for its missing bytes.
bool RequestQueue::arrive(const IoCompletion& completion) {
  const size_t place = completion.tag;
  Flight& flight = at(place);
  try {
    if (!advance(flight, completion.result)) {
      submit(place);
      return false;
    }
    if (flight.job.check) flight.job.check();
    land(place, nullptr);
  } catch (...) {
    if (flight.job.transfer.kind == IoSubmission::Kind::read && !flight.read_again) return read_again(place);
    land(place, std::current_exception());
  }
  return true;
}

// Returns true if all bytes have been transferred.
bool RequestQueue::advance(Flight& flight, int64_t result) const {
  const IoSubmission rest = rest_of(flight.job.transfer, flight.moved);
  if (result >= rest.bytes) return true;
  if (result < 0 && !passing(-result)) std::rethrow_exception(file_.failure_of(static_cast<int>(-result), rest));
  const int64_t progress = std::max<int64_t>(0, result) / kAlignment * kAlignment;
  flight.moved += progress;
  flight.idle = progress > 0 ? 0 : flight.idle + 1;
  if (flight.idle > kEmptyResults)
    std::rethrow_exception(file_.failure_of(result < 0 ? static_cast<int>(-result) : EIO, rest));
  return false;
}

bool RequestQueue::read_again(size_t place) {
  Flight& flight = at(place);
  flight.read_again = true;
  flight.moved = flight.idle = 0;
  try {
    submit(place);
    return false;
  } catch (...) {
    land(place, std::current_exception());
    return true;
  }
}

// --- both ---

void RequestQueue::submit(size_t place) {
  const IoSubmission transfer = rest(place);
  int result = 0;
  for (int tries = 0; tries < kEmptyResults; ++tries) {
    result = io_->submit(transfer, place);
    if (result >= 0) return;
    if (!passing(-result)) break;
  }
  std::rethrow_exception(file_.failure_of(-result, transfer));
}

RequestQueue::Flight& RequestQueue::at(size_t place) {
  std::lock_guard lock(mutex_);
  return *places_[place];
}

IoSubmission RequestQueue::rest(size_t place) {
  std::lock_guard lock(mutex_);
  return rest_of(places_[place]->job.transfer, places_[place]->moved);
}

void RequestQueue::land(size_t place, std::exception_ptr error) {
  if (error) failure_.note(error);  // before the next job takes this place
  std::unique_ptr<Flight> flight;
  {
    std::lock_guard lock(mutex_);
    flight = std::move(places_[place]);
    if (!error) traffic_.bytes += flight->job.transfer.bytes;
  }
  place_came_free_.notify_one();
  file_.forget(flight->job.transfer);
  end(std::move(flight->job), std::move(error));
}

void RequestQueue::end(Job job, std::exception_ptr error) {
  // Releases what the job holds, such as the block, before anyone can see that it is done.
  job.prepare = nullptr;
  job.check = nullptr;
  job.request->finish(std::move(error));
}

void RequestQueue::count_flights(int change) {
  {
    std::lock_guard lock(mutex_);
    if (flying_ == 0) busy_since_ = Clock::now();
    flying_ += change;
    if (flying_ == 0) traffic_.busy += Clock::now() - busy_since_;
  }
  flight_came_.notify_one();
}

}  // namespace memtune::disk
