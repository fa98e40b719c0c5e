// Queue for one direction of a file. Requests enter in order, are prepared by one thread, run in the background,
// several at a time, and are completed by a second thread.
//
//   push() ──> waiting ── prepare ──> in flight ── resumed, retried ──> check ──> DiskTransferCompletionHandle::done()
//
// Two threads, because preparing waits for a device, which must not delay the completion of other transfers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/engine/disk/async_file_io.h"
#include "core/engine/disk/direct_or_buffered_io_file.h"

namespace memtune::disk {

// A pending read or write of one or several jobs. Thread: any.
class DiskTransferCompletionHandle {
 public:
  explicit DiskTransferCompletionHandle(int jobs = 1) : jobs_left_(jobs) {}
  // True when all jobs have ended, successfully or not.
  bool done() const;
  // Blocks until done. Throws the failure, to every caller.
  void wait() const;
  // Start of its first transfer, and its completion. Valid once it is done.
  std::chrono::steady_clock::time_point started() const { return started_; }
  std::chrono::steady_clock::time_point ended() const { return ended_; }

 private:
  friend class RequestQueue;
  void start();
  void finish(std::exception_ptr error);  // one job

  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
  int jobs_left_;
  std::chrono::steady_clock::time_point started_, ended_;
  std::exception_ptr error_;
};
using RequestPtr = std::shared_ptr<DiskTransferCompletionHandle>;

// The first failure on a file. All later requests fail with it.
class FirstIoFailureLatch {
 public:
  void note(std::exception_ptr error);
  void rethrow() const;

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

// Statistics of a queue.
struct DiskQueueThroughputStats {
  int64_t bytes = 0;
  std::chrono::nanoseconds busy{0};      // time with at least one transfer in flight
  std::chrono::nanoseconds checksum{0};  // summed over the threads that compute checksums

  double gb_per_s() const {
    return busy.count() == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(busy.count());
  }
};

class RequestQueue {
 public:
  struct Job {
    IoSubmission transfer;
    std::function<void()> prepare;  // before the transfer starts, in the order of push(); may wait
    std::function<void()> check;    // after all bytes arrived
    RequestPtr request = std::make_shared<DiskTransferCompletionHandle>();
  };

  // `depth` limits the transfers in flight. `file` and `failure` must outlive the queue.
  RequestQueue(const DirectOrBufferedIoFile& file, std::unique_ptr<AsyncFileIo> io, int depth,
               FirstIoFailureLatch& failure);
  ~RequestQueue();  // waits for all jobs; after a failure, jobs not started fail at once
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  void push(Job job);
  DiskQueueThroughputStats traffic() const;
  AsyncFileIo& io() const { return *io_; }

 private:
  struct Flight {
    Job job;
    int64_t moved = 0;
    int idle = 0;  // consecutive results without progress
    bool read_again = false;
  };

  void start_jobs();
  bool next(Job& job);
  void start(Job job);
  size_t take_place(Job job);

  void finish_jobs();
  bool await_flight();
  bool arrive(const IoCompletion& completion);
  bool advance(Flight& flight, int64_t result) const;
  bool read_again(size_t place);

  void submit(size_t place);
  Flight& at(size_t place);
  IoSubmission rest(size_t place);
  void land(size_t place, std::exception_ptr error);
  void end(Job job, std::exception_ptr error);
  void count_flights(int change);

  const DirectOrBufferedIoFile& file_;
  std::unique_ptr<AsyncFileIo> io_;
  FirstIoFailureLatch& failure_;

  mutable std::mutex mutex_;
  std::condition_variable job_came_, place_came_free_, flight_came_;
  std::deque<Job> waiting_;
  std::vector<std::unique_ptr<Flight>> places_;  // indexed by tag; null: free
  int flying_ = 0;
  bool closed_ = false, all_started_ = false;
  std::chrono::steady_clock::time_point busy_since_;
  DiskQueueThroughputStats traffic_;

  std::thread starter_, finisher_;  // last: they start at once
};

}  // namespace memtune::disk
