// Runs plans through lanes.h: steps read and write numbers in plain memory, so that a tool that finds races can watch them.
//
// Standard input: lanes, steps, cells, runs, from which step of each third run one throws (-1: none); then a line for each step:
// lane, count and positions of the steps that it waits for, count and numbers of the cells that it reads, the same for those it
// writes. Each run is compared with a serial one. The exit status is 1 where they differ.

#include "lanes.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <stdexcept>

namespace {

struct Step {
  uint32_t lane;
  std::vector<uint32_t> after, reads, writes;
};

std::vector<uint32_t> read_list() {
  size_t count;
  std::cin >> count;
  std::vector<uint32_t> list(count);
  for (auto& each : list) std::cin >> each;
  return list;
}

struct Body {
  const std::vector<Step>& steps;
  std::vector<uint64_t>& cells;
  int64_t throws_at;
  unsigned delays;

  int enter(uint32_t) { return 0; }

  void step(uint32_t position, uint32_t) {
    const auto& step = steps[position];
    wait(position);
    if (throws_at == static_cast<int64_t>(position)) throw std::runtime_error("a step failed");
    uint64_t sum = position + 1;
    for (auto cell : step.reads) sum = sum * 31 + cells[cell];
    for (auto cell : step.writes) cells[cell] = cells[cell] * 17 + sum;
    wait(position + 1000);
  }

  std::exception_ptr caught(uint32_t) { return std::current_exception(); }

 private:
  void wait(uint32_t position) const {
    if (delays == 0) return;
    std::minstd_rand random(delays * 9973 + position);
    random.discard(2);
    switch (random() % 6) {
      case 0: std::this_thread::sleep_for(std::chrono::microseconds(random() % 200)); break;
      case 1: std::this_thread::yield(); break;
      default: for (unsigned i = random() % 500; i > 0; --i) torchair::relax();
    }
  }
};

}  // namespace

int main() {
  size_t lanes, count, cells, runs;
  int64_t throws_at;
  std::cin >> lanes >> count >> cells >> runs >> throws_at;
  std::vector<Step> steps(count);
  torchair::Lanes order;
  for (auto& step : steps) {
    std::cin >> step.lane;
    step.after = read_list();
    step.reads = read_list();
    step.writes = read_list();
    order.add(step.lane, step.after);
  }
  if (!std::cin) return 2;
  for (size_t run = 0; run < runs; ++run) {
    const int64_t fails = run % 3 == 2 ? throws_at : -1;
    std::vector<uint64_t> expected(cells, 1), got(cells, 1);
    Body serial{steps, expected, fails, 0};
    try {
      for (uint32_t i = 0; i < count; ++i) serial.step(i, 0);
    } catch (const std::runtime_error&) {
    }
    Body body{steps, got, fails, static_cast<unsigned>(run)};
    int64_t failed = -1;
    try {
      if (!order.run(body, failed)) return 3;
      if (fails >= 0) return 4;
    } catch (const std::runtime_error&) {
      if (failed != fails) return 5;
    }
    if (fails < 0 && got != expected) {
      std::printf("run %zu differs\n", run);
      return 1;
    }
  }
  std::printf("%zu runs, %zu threads\n", runs, torchair::LanePool::of_process().threads());
  return 0;
}
