// Preloaded into a service: answers a message with its memory and resources after a garbage collection.
process.on('message', () => {
  globalThis.gc()
  const { heapUsed, rss } = process.memoryUsage()
  const resources = {}
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1
  process.send({ heapBytes: heapUsed, residentBytes: rss, resources })
})
// The channel alone must not keep the process running.
process.channel.unref()
