// Launches through the dispatcher: arguments that are ready but for those in slots.

#pragma once

#include "arena.h"
#include "values.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/clone.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torchair {

using Stack = std::vector<IValue>;

// The values of a plan. Some are *held*: constants, memory of the arena, and views of those; they are set once. The
// others live during one run: inputs, and results of launches.
struct Slots {
  std::vector<IValue> values;
  std::vector<bool> held;

  // Whether the value is known when a launch is made.
  bool known(uint32_t slot) const { return held.at(slot) && !values[slot].isNone(); }
};

// One argument whose elements come from slots and constants.
struct ListPatch {
  uint32_t position;
  c10::TypePtr element_type;
  std::vector<std::pair<int32_t, IValue>> elements;  // slot, or -1 and the constant
};

// One argument that is a number in a slot, and what the schema wants it as.
struct NumberPatch {
  uint32_t position;
  uint32_t slot;
  c10::TypeKind type;
};

enum class Kind : uint8_t { Call, Item, Callback, Native };

struct Launch {
  Kind kind = Kind::Call;
  std::optional<c10::OperatorHandle> op;
  py::object callback;  // touched with the GIL only
  std::vector<IValue> arguments;
  std::vector<std::pair<uint32_t, uint32_t>> patches;  // position of an argument, slot
  std::vector<NumberPatch> numbers;
  std::vector<ListPatch> lists;
  std::vector<int32_t> results;  // slot of each result, -1 for one that nobody reads
  uint32_t item = 0;  // which element; of a native program, which one
  bool may_alias = false;

  // Whether afterwards a tensor in a slot may have other memory or other sizes than before.
  bool may_change_inputs() const { return kind == Kind::Callback || (kind == Kind::Call && op->schema().is_mutable()); }
};

inline void add_list(Launch& launch, const Slots& slots, size_t position, c10::TypePtr type, const py::list& elements);
inline IValue list_of(const ListPatch& patch, const Slots& slots);

inline Launch make_call(const std::string& name, const std::string& overload, const py::list& arguments,
                        const std::vector<int32_t>& results, bool may_alias, const Slots& slots) {
  Launch launch;
  launch.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  launch.results = results;
  launch.may_alias = may_alias;
  const auto& schema = launch.op->schema();
  TORCH_CHECK(arguments.size() == schema.arguments().size(), name, " takes ", schema.arguments().size(), " arguments");
  for (size_t i = 0; i < arguments.size(); ++i) {
    // (0, constant), (1, slot), (2, [of these]), or (3, slot) for a slot with a number.
    const py::tuple argument = arguments[i];
    const auto kind = argument[0].cast<int>();
    const auto& type = schema.arguments()[i].type();
    launch.arguments.emplace_back();
    if (kind == 0) {
      launch.arguments.back() = constant(argument[1], type);
    } else if (kind == 1) {
      const auto slot = argument[1].cast<uint32_t>();
      if (slots.known(slot)) launch.arguments.back() = slots.values[slot];
      else launch.patches.emplace_back(i, slot);
    } else if (kind == 3) {
      launch.numbers.push_back({static_cast<uint32_t>(i), argument[1].cast<uint32_t>(), without_optional(type)->kind()});
    } else {
      add_list(launch, slots, i, type, argument[1].cast<py::list>());
    }
  }
  return launch;
}

inline void add_list(Launch& launch, const Slots& slots, size_t position, c10::TypePtr type, const py::list& elements) {
  type = without_optional(type);
  auto element = type->expectRef<c10::ListType>().getElementType();
  if (element->kind() == c10::TypeKind::SymIntType) element = c10::IntType::get();
  ListPatch patch{static_cast<uint32_t>(position), element, {}};
  bool fixed = true;
  for (const auto& each : elements) {
    const auto argument = each.cast<py::tuple>();
    if (argument[0].cast<int>() == 0) {
      patch.elements.emplace_back(-1, constant(argument[1], element));
      continue;
    }
    const auto slot = argument[1].cast<uint32_t>();
    if (slots.known(slot)) {
      patch.elements.emplace_back(-1, slots.values[slot]);
    } else {
      patch.elements.emplace_back(static_cast<int32_t>(slot), IValue());
      fixed = false;
    }
  }
  if (fixed) launch.arguments[position] = list_of(patch, slots);
  else launch.lists.push_back(std::move(patch));
}

inline IValue list_of(const ListPatch& patch, const Slots& slots) {
  c10::impl::GenericList list(patch.element_type);
  list.reserve(patch.elements.size());
  const auto kind = patch.element_type->kind();
  for (const auto& [slot, value] : patch.elements)
    list.push_back(slot < 0 ? value : converted(slots.values[slot], kind));
  return list;
}

// An operator that returns its argument although its schema does not say so must not hand out memory of the arena.
inline void own(IValue& value, const Arena& arena) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (tensor.defined() && tensor.has_storage() && tensor.storage().unsafeGetStorageImpl() == arena.storage())
      value = at::clone(tensor);
  } else if (value.isTensorList()) {
    auto list = value.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) {
      IValue element(list.get(i));
      own(element, arena);
      list.set(i, element.toTensor());
    }
  }
}

// A callback inside an operator may run another plan, but never this one: the caller gives each run its own stack.
inline void call(const Launch& launch, Slots& slots, Stack& stack, const Arena& arena) {
  stack.assign(launch.arguments.begin(), launch.arguments.end());
  for (const auto& [position, slot] : launch.patches) stack[position] = slots.values[slot];
  for (const auto& number : launch.numbers) stack[number.position] = converted(slots.values[number.slot], number.type);
  for (const auto& patch : launch.lists) stack[patch.position] = list_of(patch, slots);
  launch.op->callBoxed(stack);
  for (size_t i = 0; i < launch.results.size(); ++i) {
    if (launch.results[i] < 0) continue;
    if (!launch.may_alias) own(stack[i], arena);
    slots.values[launch.results[i]] = std::move(stack[i]);
  }
  stack.clear();
}

inline void take_item(const Launch& launch, Slots& slots) {
  const auto& container = slots.values[launch.patches[0].second];
  IValue found;
  if (container.isPyObject()) {
    py::gil_scoped_acquire gil;
    const auto object = torch::jit::toPyObject(container);
    found = from_python(py::object(object[py::int_(launch.item)]).ptr());
  } else if (container.isTuple()) {
    found = container.toTupleRef().elements().at(launch.item);
  } else {
    found = container.toListRef().at(launch.item);
  }
  if (launch.results[0] >= 0) slots.values[launch.results[0]] = std::move(found);
}

inline void call_back(const Launch& launch, Slots& slots) {
  py::gil_scoped_acquire gil;
  py::list arguments(launch.patches.size());
  for (size_t i = 0; i < launch.patches.size(); ++i) arguments[i] = to_python(slots.values[launch.patches[i].second]);
  const py::list results = launch.callback(arguments);
  TORCH_CHECK(results.size() == launch.results.size(), "a callback returned ", results.size(), " results, not ",
              launch.results.size());
  for (size_t i = 0; i < launch.results.size(); ++i)
    if (launch.results[i] >= 0) slots.values[launch.results[i]] = from_python(py::object(results[i]).ptr());
}

}  // namespace torchair
