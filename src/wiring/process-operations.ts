import type { Operations } from '../ops/management/operations.ts'
import type { Service } from './open-service.ts'

/** What the management port asks of a service. */
export function createProcessOperations(
  service: Pick<
    Service,
    'isStopping' | 'ping' | 'isCountingLocally' | 'report' | 'reloadLimits' | 'bans'
  >,
): Operations {
  return {
    listBans: service.bans.list,
    addBan: service.bans.add,
    liftBans: service.bans.lift,
    reloadLimits: service.reloadLimits,
    report: service.report,

    checks: async () => {
      const isServing = !service.isStopping()
      const isStorageUp = await service.ping().then(
        () => true,
        () => false,
      )
      const isLocal = service.isCountingLocally()
      return {
        isReady: isServing && isStorageUp,
        checks: {
          service: { status: isServing ? 'ok' : 'unavailable' },
          storage: { status: isStorageUp ? 'ok' : 'unavailable' },
          ...(isLocal !== undefined && { limits: { status: isLocal ? 'local' : 'ok' } }),
        },
      }
    },
  }
}
