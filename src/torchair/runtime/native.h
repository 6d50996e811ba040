// Runs of native programs: compiled functions over a table of pointers into tensors.

#pragma once

#include "launch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace torchair {

// What a run allocates.
struct FreshResult {
  uint32_t slot;
  at::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
};

struct NativeRun {
  // What the runner learns of the times of a program: zero at first, and its own business.
  struct alignas(8) Pace {
    char bytes[144] = {};
  };

  // torchair_run_program_paced of native/include/torchair_native/program.h; stages are opaque here.
  using Runner = int64_t (*)(const void* stages, int64_t count, void* const* pointers, const int64_t* sizes, int64_t workers,
                             Pace* pace);

  // What the program was compiled for.
  struct Given {
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;

    bool fits(const at::Tensor& tensor) const {
      if (C10_LIKELY(tensor.strides() == at::IntArrayRef(strides))) return true;
      for (size_t d = 0; d < sizes.size(); ++d)
        if (sizes[d] != 1 && tensor.stride(static_cast<int64_t>(d)) != strides[d]) return tensor.numel() == 0;
      return true;
    }

    // The values in the strides that are expected; where these are 0, those of the first element.
    at::Tensor placed(const at::Tensor& tensor) const {
      auto own = sizes;
      auto from = tensor;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (strides[d] != 0 || sizes[d] <= 1) continue;
        own[d] = 1;
        from = from.narrow(static_cast<int64_t>(d), 0, 1);
      }
      return at::empty_strided(own, strides, tensor.options()).copy_(from);
    }
  };

  struct Source {
    uint32_t slot;
    bool written;
    bool bumps;  // a tensor of the caller's is written: autograd must learn of it
    int32_t given;  // number in `given` of a tensor that each run makes anew, else -1
  };

  Runner runner;
  std::string stages;
  int64_t count;
  std::vector<int64_t> sizes;
  std::vector<Source> sources;                          // the tensors, each once
  std::vector<std::pair<uint32_t, int64_t>> pointers;   // number of a source, bytes from its first element
  std::vector<FreshResult> fresh;
  std::vector<Given> given;
  uint32_t workspace;                                   // number of a source
  int64_t errors;                                       // bytes
  std::vector<std::string> messages;
  Pace pace;
  std::vector<char*> bases;
  std::vector<void*> table;

  void point(uint32_t slot, int64_t offset, bool written) { pointers.emplace_back(source(slot, written), offset); }

  void expect(uint32_t slot, Given what) {
    for (auto& s : sources) {
      if (s.slot != slot) continue;
      s.given = static_cast<int32_t>(given.size());
      given.push_back(std::move(what));
      return;
    }
  }

  void finish(uint32_t workspace_slot, int64_t error_bytes, std::vector<std::string> texts, const Slots& slots,
              const std::vector<int32_t>& results) {
    workspace = source(workspace_slot, true);
    errors = error_bytes;
    messages = std::move(texts);
    for (auto& s : sources) {
      s.bumps = s.written && !slots.held.at(s.slot);
      for (auto slot : results) s.bumps = s.bumps && static_cast<uint32_t>(slot) != s.slot;
    }
    bases.resize(sources.size());
    table.resize(pointers.size());
  }

  void run(Slots& slots) {
    for (const auto& result : fresh)
      slots.values[result.slot] = at::Tensor(at::detail::empty_strided_cpu(result.sizes, result.strides, result.dtype));
    std::vector<std::tuple<at::Tensor, at::Tensor, bool>> lazy;  // a tensor that is not what it should be, its values, written
    for (size_t i = 0; i < sources.size(); ++i) {
      const at::Tensor* of_slot = &slots.values[sources[i].slot].toTensor();
      if (const auto number = sources[i].given; number >= 0) {
        // Operators may return other strides than their meta functions say.
        const auto& expected = given[static_cast<size_t>(number)];
        TORCH_CHECK(of_slot->sizes() == at::IntArrayRef(expected.sizes) && of_slot->scalar_type() == expected.dtype,
                    "a tensor is ", of_slot->scalar_type(), of_slot->sizes(), ", and its meta function promised ", expected.dtype,
                    at::IntArrayRef(expected.sizes));
        if (C10_UNLIKELY(!expected.fits(*of_slot))) {
          if (lazy.empty()) lazy.reserve(sources.size());
          lazy.emplace_back(*of_slot, expected.placed(*of_slot), sources[i].written);
          of_slot = &std::get<1>(lazy.back());
        }
      }
      if (C10_UNLIKELY(of_slot->is_neg())) {
        if (lazy.empty()) lazy.reserve(sources.size());
        // In the same strides: the program was compiled for them.
        auto values = at::empty_strided(of_slot->sizes(), of_slot->strides(), of_slot->options());
        lazy.emplace_back(*of_slot, values.copy_(*of_slot), sources[i].written);
        of_slot = &std::get<1>(lazy.back());
      }
      const auto& tensor = *of_slot;
      bases[i] = static_cast<char*>(sources[i].written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr()));
    }
    for (size_t i = 0; i < pointers.size(); ++i) table[i] = bases[pointers[i].first] + pointers[i].second;
    auto* const flags = reinterpret_cast<int64_t*>(bases[workspace]);
    std::memset(flags, 0, static_cast<size_t>(errors));
    runner(stages.data(), count, table.data(), sizes.data(), at::in_parallel_region() ? 1 : at::get_num_threads(), &pace);
    for (const auto& [given, plain, written] : lazy)
      if (written) given.copy_(plain);
    for (const auto& source : sources) {
      if (!source.bumps) continue;
      auto* const tensor = slots.values[source.slot].toTensor().unsafeGetTensorImpl();
      if (!tensor->is_inference()) tensor->bump_version();
    }
    for (size_t i = 0; i < messages.size(); ++i) TORCH_CHECK_INDEX(flags[i] == 0, messages[i]);
  }

 private:
  uint32_t source(uint32_t slot, bool written) {
    for (uint32_t i = 0; i < sources.size(); ++i) {
      if (sources[i].slot != slot) continue;
      sources[i].written = sources[i].written || written;
      return i;
    }
    sources.push_back({slot, written, false, -1});
    return static_cast<uint32_t>(sources.size() - 1);
  }
};

}  // namespace torchair
