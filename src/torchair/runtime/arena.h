// Memory of plans, as the tensors that lie in it see it.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace torchair {

// Memory that the intermediate values of plans share, one run at a time. It grows by taking other memory for the same
// storage, so tensors that were made over it stay valid.
class Arena {
 public:
  Arena()
      : storage_(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), 0, c10::GetCPUAllocator()->allocate(0), c10::GetCPUAllocator(),
            /*resizable=*/false)) {}

  void reserve(size_t bytes) {
    if (bytes > storage_.nbytes()) {
      auto* storage = storage_.unsafeGetStorageImpl();
      storage->set_data_ptr(c10::DataPtr());  // give the old memory back first: the peak is the larger, not the sum
      storage->set_nbytes(0);
      storage->set_data_ptr(c10::GetCPUAllocator()->allocate(bytes));
      storage->set_nbytes(bytes);
      ++generation_;
    }
  }

  at::Tensor tensor(at::ScalarType dtype, int64_t offset_bytes, const std::vector<int64_t>& sizes,
                    const std::vector<int64_t>& strides) const {
    c10::InferenceMode normal(false);
    const auto meta = c10::scalarTypeToTypeMeta(dtype);
    TORCH_CHECK(offset_bytes % static_cast<int64_t>(meta.itemsize()) == 0, "an offset is not aligned");
    auto result = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage_), c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView}), meta);
    auto* impl = result.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(sizes, strides, offset_bytes / static_cast<int64_t>(meta.itemsize()));
    return result;
  }

  size_t nbytes() const { return storage_.nbytes(); }
  // What Python knows as `UntypedStorage._cdata`.
  intptr_t storage_id() const { return reinterpret_cast<intptr_t>(storage_.unsafeGetStorageImpl()); }
  // Changes whenever some arena moves: one launch may have operands in several.
  static int64_t generation() { return generation_; }
  const c10::StorageImpl* storage() const { return storage_.unsafeGetStorageImpl(); }

 private:
  c10::Storage storage_;
  static inline std::atomic<int64_t> generation_{0};
};

}  // namespace torchair
