// yielding_mutex.h - a lock that one thread takes only while nobody else waits for it.
//
// An ordinary lock is unfair. A thread that gives it up and soon takes it again wins against one
// that has yet to wake up, each time: a request could wait for as long as another thread copies
// gigabytes, chunk by chunk. That thread calls lock_last(), and so the others come first.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace vramwise_torch
{

// For std::lock_guard and std::unique_lock.
class YieldingMutex
{
  public:
    void lock()
    {
        const Waiter waiter(waiting_);
        mutex_.lock();
    }
    bool try_lock()
    {
        return mutex_.try_lock();
    }
    template <class Duration> bool try_lock_for(const Duration &duration)
    {
        const Waiter waiter(waiting_);
        return mutex_.try_lock_for(duration);
    }
    void unlock()
    {
        mutex_.unlock();
    }
    void lock_last()
    {
        while (waiting_.load() != 0)
            std::this_thread::sleep_for(pause);
        mutex_.lock();
    }
    int waiting() const // threads, now
    {
        return waiting_.load();
    }

  private:
    static constexpr std::chrono::microseconds pause{20};
    struct Waiter {
        explicit Waiter(std::atomic<int> &to_count) : count(to_count)
        {
            count++;
        }
        ~Waiter()
        {
            count--;
        }
        Waiter(const Waiter &) = delete;
        Waiter &operator=(const Waiter &) = delete;
        std::atomic<int> &count;
    };
    std::timed_mutex mutex_;
    std::atomic<int> waiting_{0};
};

} // namespace vramwise_torch
