import pg, { type ClientConfig } from 'pg'

/** A client that takes nothing from the environment. Its config is one of `createClientConfigs`. */
export class PostgresClient extends pg.Client {
  constructor(config: ClientConfig) {
    super(config)
    // `Client` takes these from PGOPTIONS and PGREPLICATION if the config has none.
    const { connectionParameters } = this as unknown as { connectionParameters: object }
    Object.assign(connectionParameters, { options: config.options, replication: undefined })
  }
}
