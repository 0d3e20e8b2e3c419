import { type RedisServer, startRedis } from './redis-server.ts'
import { untilPasses } from './until.ts'

export type RedisCluster = Awaited<ReturnType<typeof startRedisCluster>>

/** A node that does not answer for a second counts as failed. */
const SETTINGS =
  '--cluster-enabled yes --repl-diskless-sync-delay 0 --cluster-node-timeout 1000'.split(' ')

/** A Redis Cluster of the tests' own: three masters, and as many replicas for each. */
export async function startRedisCluster({ replicas = 0 } = {}) {
  const nodes = await Promise.all(
    Array.from({ length: 3 * (1 + replicas) }, () => startRedis({ args: SETTINGS })),
  )
  const [first] = nodes as [RedisServer]
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`)
  const copies = ['--cluster-replicas', `${replicas}`, '--cluster-yes']
  await first.command('--cluster', 'create', ...addresses, ...copies)
  await Promise.all(
    nodes.map(node =>
      untilPasses(async () => {
        const state = await node.command('CLUSTER', 'INFO')
        if (!state.includes('cluster_state:ok')) throw new Error('the Cluster is not ready')
        // A replica that never had the data of its master does not take over.
        const role = await node.command('INFO', 'replication')
        if (role.includes('master_link_status:down')) throw new Error('a replica is not ready')
        if (replicas > 0 && role.includes('role:master') && role.includes('connected_slaves:0')) {
          throw new Error('a master has no replica yet')
        }
      }),
    ),
  )
  return {
    nodes,
    /** A comma list of all nodes. */
    url: `redis://${addresses.join(',')}`,
    remove: async (): Promise<void> => {
      await Promise.all(nodes.map(node => node.remove()))
    },
  }
}
