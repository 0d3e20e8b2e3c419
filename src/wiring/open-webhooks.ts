import type { ChangeFeed } from '../users/change-feed.ts'
import type { WebhookRunner } from '../webhooks/webhook-runner.ts'
import { engineOf } from './engines.ts'
import type { Opened } from './open-storage.ts'

const NONE: WebhookRunner = { report: () => [], stop: async () => true }

/** Starts the delivery to webhooks; nothing where no command can have added one, as to a database in memory. */
export async function openWebhooks(
  { config, log, clocks, storage }: Opened,
  { untilNews }: ChangeFeed,
): Promise<WebhookRunner> {
  if (config.webhooks === 'off' || engineOf(config.database).isInMemory) return NONE
  const { startWebhooks } = await import('../webhooks/webhook-runner.ts')
  const { webhooks: store, changes, isIdle } = storage
  return startWebhooks({ ...clocks, store, changes, untilNews, log, isIdle })
}
