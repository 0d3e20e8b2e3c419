/** Where Redis is, and how to connect to it. */
export interface RedisLocation {
  /** The text of the setting. It may have a password: show it through `maskCredentials` only. */
  readonly url: string
  /** Several are nodes of one Redis Cluster. One may be a server or a node of a Cluster. */
  readonly nodes: readonly RedisNode[]
  readonly username: string | undefined
  readonly password: string | undefined
  /** Always 0 in a Cluster. */
  readonly database: number
  readonly isEncrypted: boolean
}

export interface RedisNode {
  /** A name or an IP address. */
  readonly host: string
  readonly port: number
}
