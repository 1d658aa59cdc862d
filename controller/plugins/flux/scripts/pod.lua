-- A task starts with its own pod's variables. Flux would carry those of the pod
-- where "flux run" was called to all others, with that pod's GPUs, rank and
-- secrets, and would keep them in the instance's files. So nothing is carried, and
-- the shell that starts tasks on a pod reads them from the pod's own process.
--
-- It runs in flux-shell(1) on each pod, for every job of the instance.

-- The libraries' variables for devices that Flux does not set: they are the pod's,
-- whatever the job was submitted with.
local devices = {
  "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
  "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
}
local cuda = "CUDA_VISIBLE_DEVICES"

-- contents is all of a file.
local function contents(path)
  local file, err = io.open(path, "rb")
  if not file then error("reading the pod's variables: " .. err) end
  local text = file:read("*a")
  file:close()
  return text
end

-- environment is that of the pod's first process, as a table.
local function environment()
  local pid = contents("/mnt/flux/pid"):match("%d+")
  local text, vars, from = contents("/proc/" .. pid .. "/environ"), {}, 1
  while from <= #text do
    local to = text:find("\0", from, true) or #text + 1
    local name, value = text:sub(from, to - 1):match("^([^=]+)=(.*)$")
    if name then vars[name] = value end
    from = to + 1
  end
  return vars
end

-- within are the pod's GPUs that Flux means by their places among them.
local function within(own, places)
  local all, chosen = {}, {}
  for device in own:gmatch("[^,]+") do all[#all + 1] = device end
  for place in places:gmatch("[^,]+") do
    local device = all[(tonumber(place) or -1) + 1]
    if device then chosen[#chosen + 1] = device end
  end
  -- None is what Flux says to a job without GPUs.
  return #chosen > 0 and table.concat(chosen, ",") or "-1"
end

local pod = environment()

plugin.register {
  name = "pod",
  handlers = {
    {
      topic = "task.init",
      fn = function ()
        if shell.options["gpu-affinity"] == "off" then
          task.unsetenv(cuda)
        elseif pod[cuda] and pod[cuda] ~= "" then
          task.setenv(cuda, within(pod[cuda], task.getenv(cuda) or ""))
        end
        for _, name in ipairs(devices) do
          if pod[name] then task.setenv(name, pod[name]) end
        end
        for name, value in pairs(pod) do
          -- Flux' own and its PMI's are the shell's to set.
          if not name:match("^FLUX_") and not name:match("^PMI_") then
            task.setenv(name, value, 0) -- only if it has none
          end
        end
      end,
    },
  },
}
